"""Where the time went: every ns of a device's window in one class; the classes add up to the window.

A moment belongs to the first of these that holds:

1. page migration    a kernel stands still while pages of managed memory come that it touched
2. kernels beside copies, kernels alone    a kernel, a graph, a memset or a copy inside the device runs (collectives
                     do not count); beside copies: so does a copy between host and device
3. a peer            collectives alone, before the last rank has arrived in them
4. communication alone   collectives (or copies between devices), and nothing of 2: exposed communication
5. copies alone      copies between host and device, and nothing of 2 and 4: exposed copies. The first and the last of
                     many alike are set-up where the others are hidden: a pipeline fills and drains once. So is
                     what is brought to the device once, before kernels that run again
6. idle, by what the critical path waited for. From the operation that ends an idle stretch, the path leads
                     back: to what it waited for last, to what that waited for, until the stretch begins. What
                     the path passes in that time is the class: the purpose of the host's time
                     (`analysis.host_time`), "a peer" on another device, "unexplained" where nothing recorded
                     says why it took so long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiling_lab.analysis import columns, host_time, intervals, once, order
from profiling_lab.analysis.columns import COPY, GRAPH, KERNEL, Recording
from profiling_lab.analysis.host_time import HostTime
from profiling_lab.analysis.intervals import Intervals

BUSY = ("kernels alone", "beside copies", "copies alone", "communication alone", "page migration")
KERNELS_ALONE, BESIDE_COPIES, COPIES_ALONE, COMMUNICATION_ALONE, MIGRATION = BUSY
PEER, UNEXPLAINED = "a peer", "unexplained"
SETUP, FILL = host_time.PURPOSES[host_time.SETUP], "fill and drain"
IDLE = (*host_time.PURPOSES, PEER, UNEXPLAINED)
CLASSES = (*BUSY, *IDLE)
_PEER, _UNEXPLAINED = len(host_time.PURPOSES), len(host_time.PURPOSES) + 1
# The class of the time from the end of what a call waited for to its return, by the kind of the call.
_RETURNS = {
    order.COPY_CALL: host_time.COPYING,
    order.ALLOCATION: host_time.ALLOCATING,
}
_MOST_HOPS = 100_000
# A call submits before it returns, sooner or later, and the way to the device takes sometimes more and sometimes
# less: a delay up to this behind an ordinary call is still the way to the device.
LATENCY_SPREAD_NS = 4_000


def in_words(name: str) -> str:
    """A class as people are told of it: of idle time, that it is. Set-up holds copies that run once, too."""
    if name == SETUP:
        return f"{SETUP}, copies that run once too"
    return f"idle: {name}" if name in IDLE else name


@dataclass
class Spent:
    """One device's window. classes: ns by CLASSES. idle: the stretches; idle_parts: per stretch, ns by IDLE."""

    device: int
    window_ns: tuple[int, int]
    classes: dict[str, int]
    idle: Intervals
    idle_parts: np.ndarray

    @property
    def length_ns(self) -> int:
        """The window's length."""
        return self.window_ns[1] - self.window_ns[0]

    def total_ns(self, *names: str) -> int:
        """The time in some classes together."""
        return sum(self.classes[name] for name in names)

    @property
    def idle_ns(self) -> int:
        """The time in which nothing ran."""
        return self.total_ns(*IDLE) - self.busy_ns

    busy_ns: int = 0  # of the classes of IDLE, what was spent in collectives and copies


def read(
    time: HostTime,
    window_ns: tuple[int, int] | None = None,
    waits_in_collectives: dict[int, Intervals] | None = None,
    closing_thread: int | None = None,
) -> list[Spent]:
    """Per device, where the time of a window went.

    waits_in_collectives: by device, when it was in a collective that not all ranks had reached.
    closing_thread: the thread that a window ends on (of an NVTX range): what it does at the end of the
    window is what a device waits for then.
    """
    made = time.order
    recording = made.recording
    window = window_ns or recording.span_ns
    path = _Path(time)
    out = []
    for device in recording.devices:
        waits = (waits_in_collectives or {}).get(device)
        classes, idle = _busy(recording, device, window, waits, time.single_step)
        parts = path.back(device, idle, window, closing_thread)
        in_collectives, fills = classes.pop(PEER), classes.pop(FILL)
        totals = parts.sum(axis=0).tolist()
        classes |= dict(zip(IDLE, totals, strict=True))
        classes[PEER] += in_collectives
        classes[SETUP] += fills
        assert sum(classes.values()) == window[1] - window[0]
        out.append(Spent(device, window, classes, idle, parts, in_collectives + fills))
    return out


def kinds_of_work(recording: Recording) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per operation: whether it computes, is a copy across the link, is communication."""
    work = recording.operations
    link = (work.kind == COPY) & np.isin(
        work.name, [recording.code(name) for name in columns.LINK_COPIES]
    )
    collective = np.array(
        [bool(columns.COLLECTIVE.match(name)) for name in recording.names], dtype=bool
    )
    communicates = (np.isin(work.kind, (KERNEL, GRAPH)) & collective[work.name]) | (
        (work.kind == COPY) & (work.name == recording.code("P2P"))
    )
    return ~link & ~communicates & ~work.migration, link, communicates


def _busy(
    recording: Recording,
    device: int,
    window: tuple[int, int],
    waits: Intervals | None,
    single_step: bool,
) -> tuple[dict[str, int], Intervals]:
    work = recording.operations
    here = work.device == device
    computes, link, communicates = kinds_of_work(recording)
    kernels = np.isin(work.kind, (KERNEL, GRAPH))

    def spans(chosen: np.ndarray) -> Intervals:
        rows = np.flatnonzero(here & chosen)
        return intervals.union(intervals.clip(Intervals(work.start[rows], work.end[rows]), *window))

    total = intervals.total_ns
    compute, copies, talk = spans(computes), spans(link), spans(communicates)
    # Pages that come by themselves: work stands still while a kernel that asked for them runs.
    pages = spans(work.migration)
    stalled = intervals.intersection(pages, spans(kernels)) if len(pages.starts_ns) else pages
    work_time = intervals.difference(compute, stalled)
    beside = intervals.intersection(work_time, copies)
    talk_alone = intervals.difference(intervals.difference(talk, compute), stalled)
    early = intervals.intersection(talk_alone, waits if waits is not None else intervals.of(()))
    talk_alone = intervals.difference(talk_alone, early)
    copies_alone = intervals.difference(
        intervals.difference(intervals.difference(copies, compute), talk), stalled
    )
    found = [once.fills_and_drains(work, here & link, copies_alone)]
    if not single_step:
        talks = Intervals(work.start[here & communicates], work.end[here & communicates])
        brought = once.brought(recording, here & link, here & kernels & computes, copies_alone)
        found += [brought, once.of_collectives(talks, talk_alone)]
    beyond = intervals.union(intervals.together(*found))
    alone = intervals.union(intervals.together(copies_alone, talk_alone))
    fills = intervals.intersection(alone, beyond)
    copies_alone = intervals.difference(copies_alone, beyond)
    talk_alone = intervals.difference(talk_alone, beyond)
    classes = {
        FILL: total(fills),
        KERNELS_ALONE: total(work_time) - total(beside),
        BESIDE_COPIES: total(beside),
        COPIES_ALONE: total(copies_alone),
        COMMUNICATION_ALONE: total(talk_alone),
        MIGRATION: total(stalled),
        PEER: total(early),
    }
    everything = spans(computes | link | communicates)
    return classes, intervals.gaps(everything, *window)


class _Path:
    """The critical path behind idle stretches, of all of them at once."""

    def __init__(self, time: HostTime) -> None:
        made = time.order
        self.time, self.made = time, made
        n = len(made)
        # The link that decided when a node started; of equals the one whose source ended last.
        self.link = np.full(n, -1, dtype=np.int64)
        if len(made.to):
            allowed = made.end[made.on] + made.lag
            best = np.lexsort((-made.lag, allowed, made.to))
            last = np.flatnonzero(np.append(made.to[best][1:] != made.to[best][:-1], True))
            self.link[made.to[best[last]]] = best[last]
        has = self.link >= 0
        source = np.full(n, -1, dtype=np.int64)
        source[has] = made.on[self.link[has]]
        why = np.full(n, -1, dtype=np.int8)
        why[has] = made.why[self.link[has]]
        host = made.thread >= 0
        # A run: nodes of one thread, or one stream, each bound by the one before it.
        runs_on = (
            has
            & (made.delay <= 0)
            & ((host & (why == order.PROGRAM_ORDER)) | (~host & (why == order.STREAM_ORDER)))
        )
        head = np.where(runs_on, source, np.arange(n))
        while True:  # each pass doubles the distance
            further = head[head]
            if (further == head).all():
                break
            head = further
        self.head, self.source, self.why = head, source, why
        pieces = time.pieces
        length = pieces.ends_ns - pieces.starts_ns
        # By purpose: its pieces, and the time in the first ones.
        self.sums = [
            (own := np.flatnonzero(time.purpose == number), np.append(0, np.cumsum(length[own])))
            for number in range(len(host_time.PURPOSES))
        ]

    def _until(self, keys: np.ndarray) -> np.ndarray:
        """By purpose, the time in all pieces up to each key."""
        pieces = self.time.pieces
        place = np.searchsorted(pieces.starts_ns, keys, side="right")
        last = np.maximum(place - 1, 0)
        out = np.stack([total[np.searchsorted(own, last)] for own, total in self.sums])
        if not len(pieces.starts_ns):
            return out
        inside = np.minimum(keys, pieces.ends_ns[last]) - pieces.starts_ns[last]
        some = np.flatnonzero(place > 0)
        out[self.time.purpose[last[some]], some] += inside[some]
        return out

    def back(
        self, device: int, idle: Intervals, window: tuple[int, int], closing_thread: int | None
    ) -> np.ndarray:
        """Per idle stretch, its ns by IDLE."""
        made, time = self.made, self.time
        count = len(idle.starts_ns)
        parts = np.zeros((count, len(IDLE)), dtype=np.int64)
        if not count:
            return parts
        low, high = idle.starts_ns, idle.ends_ns
        nodes = np.flatnonzero(made.kind == order.DEVICE)
        devices = made.recording.operations.device[made.row[nodes]]
        own = nodes[devices == device]
        place = np.searchsorted(made.start[own], high, side="left")
        node = (
            np.where(place < len(own), own[np.minimum(place, len(own) - 1)], -1)
            if len(own)
            else np.full(count, -1)
        )
        at = np.where(node >= 0, made.start[node], high)
        first = np.ones(count, dtype=bool)
        # Behind a device's last operation: what the window's thread did, else what ran last elsewhere.
        for number in np.flatnonzero(node < 0).tolist():
            node[number], at[number] = self._closing(
                int(high[number]), closing_thread, parts, number, int(low[number])
            )
            first[number] = False
        active = np.flatnonzero((node >= 0) & (at > low))

        def give(rows: np.ndarray, column, begin: np.ndarray, end: np.ndarray) -> None:
            spent = np.minimum(end, high[rows]) - np.maximum(begin, low[rows])
            np.add.at(parts, (rows, column), np.maximum(spent, 0))

        hops = 0
        while len(active) and hops < _MOST_HOPS:
            hops += 1
            at_node = node[active]
            on_device = made.kind[at_node] == order.DEVICE
            # A run on a device: the one that idles has none in the stretch, so this is another's.
            rows = active[on_device]
            if len(rows):
                heads = self.head[node[rows]]
                run = np.where(first[rows], node[rows], heads)
                begin = np.where(first[rows], at[rows], made.start[run])
                give(rows, _PEER, begin, at[rows])
                node[rows], at[rows] = run, np.minimum(at[rows], begin)
                first[rows] = False
            rows = active[~on_device]
            if len(rows):
                run = self.head[node[rows]]
                begin = made.start[run] - made.lead[run]
                end = np.minimum(at[rows], made.end[node[rows]])
                lower, upper = np.maximum(begin, low[rows]), np.minimum(end, high[rows])
                some = upper > lower
                rows_, lower, upper = rows[some], lower[some], upper[some]
                thread = made.thread[node[rows_]]
                spent = self._until(time.key(thread, upper)) - self._until(time.key(thread, lower))
                parts[rows_, : len(host_time.PURPOSES)] += spent.T
                # What no piece covers: a call that overlaps another, a blocked call cut by the window.
                parts[rows_, _UNEXPLAINED] += upper - lower - spent.sum(axis=0)
                node[rows], at[rows] = run, np.minimum(at[rows], begin)
            # From the head to what it waited for: its delay, then the lag of the link.
            link = self.link[node[active]]
            some = (link >= 0) & (at[active] > low[active])
            rows, link = active[some], link[some]
            lost = active[(link_none := self.link[node[active]] < 0)]
            give(lost, _UNEXPLAINED, low[lost], at[lost])
            ended = made.end[self.source[node[rows]]]
            lag = np.maximum(made.lag[link], 0)
            usual = np.isin(self.why[node[rows]], (order.ISSUED, order.STREAM_ORDER))
            late = np.minimum(LATENCY_SPREAD_NS, made.delay[node[rows]])
            reach = np.where(usual, lag + late, lag)
            lag_end = np.minimum(at[rows], ended + reach)
            give(rows, _UNEXPLAINED, lag_end, at[rows])
            give(
                rows,
                self._lag_class(node[rows], self.source[node[rows]]),
                np.minimum(ended, lag_end),
                lag_end,
            )
            at[rows] = np.minimum(np.minimum(ended, lag_end), at[rows])
            node[rows] = self.source[node[rows]]
            active = active[~link_none]
            active = active[at[active] > low[active]]
        left = (high - low) - parts.sum(axis=1)
        parts[:, _UNEXPLAINED] += left
        return parts

    def _closing(
        self, end_ns: int, thread: int | None, parts: np.ndarray, row: int, low: int
    ) -> tuple[int, int]:
        """Where the path of a stretch begins that no operation of its device ends: (node, time)."""
        made = self.made
        if thread is not None:
            own = np.flatnonzero(made.thread == thread)
            if len(own):
                place = int(np.searchsorted(made.end[own], end_ns, side="left"))
                if place < len(own):
                    return int(own[place]), end_ns
                last = int(own[-1])
                at = int(made.end[last])
                parts[row, host_time.OWN_CODE] += end_ns - max(at, low)
                return last, max(at, low)
        nodes = np.flatnonzero(made.kind == order.DEVICE)
        ends = made.end[nodes]
        reaching = nodes[ends >= end_ns]
        if len(reaching):
            return int(reaching[0]), end_ns
        return int(nodes[np.argmax(ends)]), end_ns

    def _lag_class(self, node: np.ndarray, source: np.ndarray) -> np.ndarray:
        """The class of the time between the end of what a node waited for and its start."""
        made = self.made
        out = np.full(len(node), host_time.ISSUING, dtype=np.int64)
        waited = made.kind[node] == order.WAIT
        out[waited] = host_time.WAITING
        for kind, purpose in _RETURNS.items():
            out[waited & (made.waits_in[node] == kind)] = purpose
        out[waited & self.time.links.few_bytes[source]] = host_time.WAITING
        issued = self.why[node] == order.ISSUED
        out[issued & made.resumes[source]] = host_time.WAITING
        out[issued & (made.kind[source] == order.COPY_CALL) & ~made.resumes[source]] = (
            host_time.COPYING
        )
        return out
