"""What a thread slept for: other threads of its process that worked meanwhile.

A framework may fetch results, send data or compile on threads of its own (JAX does all three). The thread that asked
for it sleeps in a call of the operating system until that is done. Where such calls are recorded, an order
(`analysis.order`) gets what they tell:

* A thread asleep did nothing. What it does before a call begins when it wakes, or when it is handed the work.
* Who works only while another one sleeps works for it: it begins when that one goes to sleep, or hands over before, and
  that one goes on after it (hand-over). Of several, each begins when the one before it is done.
* If the last thing done is a copy to the host, the sleeper waits for that copy, and for moving it on in the host's memory.
* A thread that wakes meanwhile to fetch, after the operation behind which the sleeper had put a function of the host,
  waits for that operation.
* So does the sleeper where no helper works for it, if it wakes right after such an operation has ended.
* Code of no recorded call, while all sleep, is the host's own.

Such a thread has no work of its own: it sleeps before its first and after its last call of the time in question.
"""

# Long because finding who worked for whom and cutting leads by it read the same bouts.

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from profiling_lab.analysis import columns, intervals, order
from profiling_lab.analysis.columns import Recording
from profiling_lab.analysis.intervals import Intervals
from profiling_lab.analysis.order import Order

# Calls of the operating system in which a thread waits for another thread or process, or for data.
OS_WAITS = (
    r"(pthread_cond_|pthread_mutex_lock|pthread_rwlock|pthread_join|sem_|futex|poll|ppoll|select|pselect"
    r"|epoll_|read|pread|recv|accept|waitpid|wait4|sigwait|clock_nanosleep|nanosleep|usleep)"
)
# A shorter one only wakes another thread: such calls took 2 to 10 µs.
SLEEP_NS = 20_000
PUTS = r"cu(da)?(LaunchHostFunc|StreamAddCallback)$"
# From the end of an operation to the wake of the thread that waits for the function behind it: 0.13 ms in the median of 546
# waits of JAX under Nsight Systems, 0.27 ms in 95 of 100, 0.9 and 1.2 ms at most. Who wakes later waited for something else.
TOLD_WITHIN_NS = 1_000_000


@dataclass(frozen=True)
class Bout:
    """What a helper did between two sleeps: host nodes of its thread, and when it woke before them.

    asker: the node of the older thread that was awake then (`handed`) or slept (since when: `slept_ns`); -1 if none.
    """

    thread: int
    nodes: np.ndarray
    woke_ns: int
    end_ns: int
    asker: int = -1
    handed: bool = False
    slept_ns: int = 0


@dataclass(frozen=True)
class Sleep:
    """A sleep before a node: with what helpers did meanwhile, or the operation that it waited for (`told`, else -1)."""

    since_ns: int
    until_ns: int
    bouts: list[Bout]
    told: int = -1


def read(recording: Recording) -> Order:
    """The order of a recording, with what threads slept for where calls of the operating system were recorded."""
    spans = asleep(recording)
    made = order.read(recording, pauses_tell=not spans, watchdogs=False)
    if not spans:
        return made
    bouts, sleeps = _Helpers(made, spans).read()
    return _Split(made, bouts, sleeps).build() if bouts or sleeps else made


def asleep(recording: Recording) -> dict[int, Intervals]:
    """By thread, when it waited in the operating system."""
    calls = recording.os_calls
    if not len(calls):
        return {}
    waits = recording.names_like(OS_WAITS)[calls.name] & (calls.end - calls.start >= SLEEP_NS)
    waits = np.flatnonzero(waits)
    if not len(waits):
        return {}
    waits = waits[np.argsort(calls.thread[waits], kind="stable")]
    threads, first = np.unique(calls.thread[waits], return_index=True)
    out = {}
    for thread, rows in zip(threads.tolist(), np.split(waits, first[1:]), strict=True):
        out[thread] = intervals.union(Intervals(calls.start[rows], calls.end[rows]))
    return out


def _puts(made: Order) -> np.ndarray:
    """Per node, whether it puts a function of the host behind what its thread has issued."""
    out = np.zeros(len(made), dtype=bool)
    calls = np.flatnonzero((made.thread >= 0) & (made.row >= 0))
    out[calls] = made.recording.names_like(PUTS)[made.recording.calls.name[made.row[calls]]]
    return out


def _issued(made: Order) -> np.ndarray:
    """The links from calls to what they give the device, in the calls' order."""
    links = np.flatnonzero(made.why == order.ISSUED)
    return links[np.argsort(made.on[links], kind="stable")]


class _Helpers:
    """Who worked for whom, and which operations the others waited for."""

    def __init__(self, made: Order, spans: dict[int, Intervals]) -> None:
        self.made, self.spans = made, spans
        host = np.flatnonzero((made.thread >= 0) & (made.row >= 0) & (made.kind != order.WAIT))
        host = host[np.argsort(made.thread[host], kind="stable")]
        threads, first = np.unique(made.thread[host], return_index=True)
        self.rows = dict(zip(threads.tolist(), np.split(host, first[1:]), strict=True))
        self.process = {t: made.recording.threads[t][0] for t in self.rows}
        calls = made.recording.os_calls
        # Nothing is known of a thread before the first that was recorded of it: it slept then.
        self.seen = {t: int(made.start[rows[0]]) for t, rows in self.rows.items()}
        for thread, begun in zip(calls.thread.tolist(), calls.start.tolist(), strict=True):
            if begun < self.seen.get(thread, order.NEVER):
                self.seen[thread] = begun
        self.begun: set[int] = set()  # first nodes of bouts with an asker
        self.issues = np.zeros(len(made), dtype=bool)
        self.issued = _issued(made)
        self.issues[made.on[self.issued]] = True
        self.puts = _puts(made)

    def _with_functions(self, thread: int) -> tuple[np.ndarray, np.ndarray]:
        """The operations of a thread behind which it put functions of the host, by their ends; and these."""
        made, own = self.made, self.rows[thread]
        puts = own[self.puts[own]]
        if not len(puts):
            return puts, made.end[puts]
        issued = self.issued[made.thread[made.on[self.issued]] == thread]
        last = np.searchsorted(made.on[issued], puts) - 1
        operations = made.to[issued[last[last >= 0]]]
        operations = operations[np.argsort(made.end[operations], kind="stable")]
        return operations, made.end[operations]

    def _older(self, thread: int) -> list[int]:
        """Numbers rise as threads are made, and helpers are made after the thread that they help."""
        return [t for t in self.rows if t < thread and self.process[t] == self.process[thread]]

    def read(self) -> tuple[list[Bout], dict[int, list[Sleep]]]:
        """The bouts with an asker; and by node the sleeps before it in which helpers worked, in order of time."""
        bouts = []
        for thread in self.rows:
            if thread in self.spans and (older := self._older(thread)):
                bouts += [self._asked(bout, older) for bout in self._bouts(thread)]
        bouts.sort(key=lambda bout: bout.end_ns)
        sleeps: dict[int, list[Sleep]] = {}
        made, ends = self.made, np.array([bout.end_ns for bout in bouts], dtype=np.int64)
        for thread, own in self.rows.items():
            starts, wakes = self.spans.get(thread, intervals.of(()))
            operations, ended = self._with_functions(thread)
            if not bouts and not len(operations):
                continue
            for node in own[made.lead[own] >= order.PAUSE_NS].tolist():
                if node in self.begun:
                    continue  # it slept for want of work
                begun, at = int(made.start[node] - made.lead[node]), int(made.start[node])
                low = int(np.searchsorted(starts, begun))
                for since, until in zip(starts[low:].tolist(), wakes[low:].tolist(), strict=True):
                    if until > at:
                        break
                    first, last = np.searchsorted(ends, [since, until], side="right").tolist()
                    found = [
                        bout
                        for bout in bouts[first:last]
                        if bout.thread > thread
                        and bout.woke_ns >= begun
                        and self.process[bout.thread] == self.process[thread]
                    ]
                    last = int(np.searchsorted(ended, until, side="right")) - 1
                    told = last >= 0 and ended[last] >= max(since, until - TOLD_WITHIN_NS)
                    if found:
                        sleeps.setdefault(node, []).append(Sleep(since, until, found))
                    elif told:
                        waits_for = Sleep(since, until, [], int(operations[last]))
                        sleeps.setdefault(node, []).append(waits_for)
        return [bout for bout in bouts if bout.asker >= 0], sleeps

    def _bouts(self, thread: int) -> list[Bout]:
        """Those that give the device work; who only calls hands over something else, input for example."""
        made, nodes = self.made, self.rows[thread]
        starts, ends = self.spans[thread]
        after = np.minimum(np.searchsorted(starts, made.end[nodes[:-1]]), len(starts) - 1)
        slept = (starts[after] >= made.end[nodes[:-1]]) & (ends[after] <= made.start[nodes[1:]])
        out = []
        for own in np.split(nodes, np.flatnonzero(slept) + 1):
            woke = int(np.searchsorted(ends, made.start[own[0]], side="right")) - 1
            at = int(ends[woke]) if woke >= 0 else self.seen[thread]
            if self.issues[own].any():
                out.append(Bout(thread, own, at, int(made.end[own[-1]])))
        return out

    def _asked(self, bout: Bout, older: list[int]) -> Bout:
        """The bout with its asker: who alone was awake between two calls when it began, else who slept through it."""
        made, woke = self.made, bout.woke_ns
        awake, slept = [], []
        for thread in older:
            own = self.rows[thread]
            place = int(np.searchsorted(made.start[own], woke, side="right"))
            if place == len(own) or made.start[own[place]] - made.lead[own[place]] > woke:
                continue
            starts, ends = self.spans.get(thread, intervals.of(()))
            since = int(np.searchsorted(starts, woke, side="right")) - 1
            if int(own[place]) in self.begun or woke < self.seen[thread]:
                continue
            if since < 0 or ends[since] <= woke:
                awake.append(int(own[place]))
            elif ends[since] >= bout.end_ns:
                slept.append(
                    (int(ends[since] - starts[since]), int(starts[since]), int(own[place]))
                )
        if len(awake) == 1:
            self.begun.add(int(bout.nodes[0]))
            return replace(bout, asker=awake[0], handed=True)
        if not awake and slept:
            _, since, node = min(slept)
            self.begun.add(int(bout.nodes[0]))
            return replace(bout, asker=node, slept_ns=since)
        return bout


class _Split:
    """Leads cut at sleeps and hand-overs, and the links that say what ended these."""

    def __init__(self, made: Order, bouts: list[Bout], sleeps: dict[int, list[Sleep]]) -> None:
        self.made, self.bouts, self.sleeps = made, bouts, sleeps
        self.lead = made.lead.copy()
        self.for_thread = made.thread.copy()
        self.kind: list[int] = []  # of the nodes that come in; their numbers go on from the order's
        self.thread: list[int] = []
        self.start: list[int] = []
        self.before: list[int] = []  # the order's node that each comes in before
        self.add_lead: list[int] = []
        self.waits_in: list[int] = []
        self.links: list[tuple[int, int, int, int]] = []  # on, to, lag, why
        self.first: dict[int, int] = {}  # node → what came in before it first: takes over its links
        self.last: dict[int, int] = {}  # node → what came in before it last
        chained = np.flatnonzero(made.why == order.PROGRAM_ORDER)
        self.chained = np.full(len(made), -1, dtype=np.int64)
        self.chained[made.to[chained]] = made.on[chained]
        self.issued = _issued(made)
        self.puts, work = _puts(made), made.recording.operations
        device = np.flatnonzero(made.kind == order.DEVICE)
        rows = made.row[device]
        self.fetches = np.zeros(len(made), dtype=bool)
        down = made.recording.code("D2H")
        self.fetches[device] = (work.kind[rows] == columns.COPY) & (work.name[rows] == down)

    def build(self) -> Order:
        """The order with all of it."""
        asked: dict[int, list[Bout]] = {}
        for bout in self.bouts:
            asked.setdefault(bout.asker, []).append(bout)
        # Who helps a helper works for the one that this works for.
        works_for: dict[int, int] = {}
        for bout in sorted(self.bouts, key=lambda bout: bout.thread):
            helped = int(self.made.thread[bout.asker])
            helped = works_for.get(helped, helped)
            works_for.setdefault(bout.thread, helped)
            self.for_thread[bout.nodes] = helped
        for node in sorted({*asked, *self.sleeps}):
            self._cut(node, asked.get(node, []), self.sleeps.get(node, []))
        return self._merged()

    def _add(self, before: int, kind: int, thread: int, start: int, lead: int, waits: int) -> int:
        self.kind.append(kind)
        self.thread.append(thread)
        self.start.append(start)
        self.add_lead.append(lead)
        self.waits_in.append(waits)
        self.before.append(before)
        return len(self.made) + len(self.kind) - 1

    def _code(self, node: int, begun: int, until: int) -> int:
        """The thread's own code up to a time, as a node before another one."""
        thread = int(self.made.thread[node])
        new = self._add(node, order.HOST_CODE, thread, until, until - begun, -1)
        if node in self.last:
            self.links.append((self.last[node], new, 0, order.PROGRAM_ORDER))
        self.first.setdefault(node, new)
        self.last[node] = new
        return new

    def _cut(self, node: int, asked: list[Bout], sleeps: list[Sleep]) -> None:
        """The lead of a node in parts: what it handed over, and how it slept until that was done."""
        made = self.made
        at = int(made.start[node] - self.lead[node])
        parts = [(bout.woke_ns, bout) for bout in asked if bout.handed]
        parts += [(sleep.since_ns, sleep) for sleep in sleeps]
        for time, part in sorted(parts, key=lambda part: part[0]):
            if time < at:
                continue  # before it was handed its own work
            code = self._code(node, at, time)
            at = time
            if isinstance(part, Bout):
                self._begins(part, code, time, [])
                continue
            for bout in asked:
                if not bout.handed and bout.slept_ns == part.since_ns:
                    self._begins(bout, code, time, part.bouts)
            self._goes_on(node, part, code)
            at = part.until_ns
        self.lead[node] = int(made.start[node]) - at

    def _begins(self, bout: Bout, on: int, since: int, done: list[Bout]) -> None:
        """What a bout waited for: its asker, and what was done before it of the same."""
        made, first = self.made, int(bout.nodes[0])
        start = int(made.start[first])
        told = -1 if bout.handed else self._told(bout)
        if told >= 0:
            since, lag = bout.woke_ns, bout.woke_ns - int(made.end[told])
            woke = self._add(first, order.WAIT, bout.thread, since, 0, order.SYNCHRONIZE)
            self.links.append((told, woke, lag, order.WAITED))
            self.links.append((woke, first, 0, order.PROGRAM_ORDER))
        else:
            self.links.append((on, first, 0, order.HAND_OVER))
        nodes = np.concatenate([one.nodes for one in done]) if done else np.zeros(0, dtype=int)
        ended = nodes[made.end[nodes] <= start]
        if len(ended):
            latest = int(ended[np.argmax(made.end[ended])])
            since = max(since, int(made.end[latest]))
            self.links.append((latest, first, 0, order.HAND_OVER))
        self.lead[first] = start - since

    def _goes_on(self, node: int, sleep: Sleep, asked: int) -> None:
        """What the sleeper waited for."""
        made, thread = self.made, int(self.made.thread[node])
        last = max(sleep.bouts, key=lambda bout: bout.end_ns, default=None)
        waited, call = sleep.told, order.SYNCHRONIZE
        if last is not None:
            waited, call = self._fetched(last, sleep.until_ns), order.COPY_CALL
        if last is None or waited >= 0:
            lag = sleep.until_ns - int(made.end[waited])
            woke = self._add(node, order.WAIT, thread, sleep.until_ns, 0, call)
            self.links.append((waited, woke, lag, order.WAITED))
        else:
            lead = sleep.until_ns - last.end_ns
            woke = self._add(node, order.HOST_CODE, thread, sleep.until_ns, lead, -1)
            self.links.append((int(last.nodes[-1]), woke, 0, order.HAND_OVER))
        self.links.append((asked, woke, 0, order.PROGRAM_ORDER))
        self.last[node] = woke

    def _told(self, bout: Bout) -> int:
        """The operation whose end woke a helper that fetches, if the sleeper had put a function of the host behind it."""
        made = self.made
        put = int(self.chained[bout.asker])
        if put < 0 or not self.puts[put] or self._fetched(bout, order.NEVER) < 0:
            return -1
        last = int(np.searchsorted(made.on[self.issued], put)) - 1
        operation = int(made.to[self.issued[last]]) if last >= 0 else -1
        ended = made.end[operation] if operation >= 0 else order.NEVER
        return operation if bout.slept_ns <= ended <= bout.woke_ns else -1

    def _fetched(self, bout: Bout, until: int) -> int:
        """The copy to the host behind which a bout put a function of the host, if it ends in time; else -1.

        until: NEVER for any time.
        """
        made = self.made
        puts = bout.nodes[self.puts[bout.nodes]]
        low, high = np.searchsorted(made.on[self.issued], [bout.nodes[0], bout.nodes[-1] + 1])
        issued = self.issued[low:high]
        issued = issued[np.isin(made.on[issued], bout.nodes)]
        if not len(puts) or not len(issued):
            return -1
        last = int(issued[-1])
        operation = int(made.to[last])
        told = made.on[last] < puts[-1] and (until == order.NEVER or made.end[operation] <= until)
        return operation if told and self.fetches[operation] else -1

    # -- result -----------------------------------------------------------------------------------

    def _merged(self) -> Order:
        made, count = self.made, len(self.kind)
        n = len(made)
        start = np.concatenate([made.start, np.array(self.start, dtype=np.int64)])
        before = np.array(self.before, dtype=np.int64)
        # What comes in stands before its node, in the order in which it came.
        place = np.concatenate([np.arange(n) * 2.0 + 1, before * 2.0 + np.arange(count) / count])
        by = np.lexsort((place, start))
        number = np.empty(n + count, dtype=np.int64)
        number[by] = np.arange(n + count)

        def nodes(own: np.ndarray, added: list[int] | int) -> np.ndarray:
            rest = np.broadcast_to(np.asarray(added, dtype=own.dtype), (count,))
            return np.concatenate([own, rest])[by]

        to = made.to.copy()
        moved = np.isin(made.why, (order.PROGRAM_ORDER, order.HAND_OVER))
        places = np.arange(n)
        places[list(self.first)] = list(self.first.values())
        to[moved] = places[made.to[moved]]
        more = np.array(self.links, dtype=np.int64)
        on, to = number[np.append(made.on, more[:, 0])], number[np.append(to, more[:, 1])]
        lag = np.append(made.lag, more[:, 2])
        why = np.append(made.why, more[:, 3].astype(made.why.dtype))
        ends = np.array(list(self.last.items()), dtype=np.int64)
        on, to = np.append(on, number[ends[:, 1]]), np.append(to, number[ends[:, 0]])
        lag = np.append(lag, np.zeros(len(ends), dtype=np.int64))
        why = np.append(why, np.full(len(ends), order.PROGRAM_ORDER, dtype=made.why.dtype))
        good = np.flatnonzero(on < to)
        good = good[np.argsort(to[good], kind="stable")]
        out = replace(
            made,
            kind=nodes(made.kind, self.kind),
            row=nodes(made.row, -1),
            thread=nodes(made.thread, self.thread),
            for_thread=nodes(self.for_thread, self.thread),
            start=start[by],
            lead=nodes(self.lead, self.add_lead),
            own=nodes(made.own, 0),
            waits_in=nodes(made.waits_in, self.waits_in),
            on=on[good].astype(made.on.dtype),
            to=to[good].astype(made.to.dtype),
            lag=lag[good],
            why=why[good],
        )
        out.delay, out.held = order.delays(out), order.delays(out, order.LEGACY)
        out.resumes = order.resumes(out)
        return out
