"""The recorded order of dependencies in columns: what each operation waited for, with times.

`read` makes nodes and links of a `Recording`. A node is a host call together with the host code that leads to
it, the end of a wait, or a device operation. A link says that a node starts no earlier than another one's
end and some time more. Played again unchanged (`analysis.replay`), nodes get their recorded times.

What is read off the recording:

* A host thread does one thing after the other: its CUDA calls, and its own code between them.
* A device operation starts after the call that issued it (launch), after the one before it on its stream
  (stream order), after what an event makes its stream wait for (event) and, a copy, after the one before it of
  the same direction on its device (copy engine).
* A thread that pauses while another one's CUDA calls fill the pause waits for that thread, which in turn
  was started by it (hand-over).
* A call that blocks ends only after the device operations that it waits for (wait). So does a thread that asks
  again and again whether work is done, and one that a function of the host in a stream tells that it is.
* What a wait goes on for after memory was freed to a pool is the release of that memory.
* A function of the host that was put into a stream is not recorded: what starts later than all this allows,
  right behind one, while the device does nothing else, waited for it.
* A kernel that touches managed memory which is not there stands still while it comes.
* Whatever else delayed a node is its `delay`.

Without a recording of events (--cuda-event-trace=true) events between streams are not seen; nor is a queue
between two threads.

Sources: CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; CUDA Runtime API, "API synchronization
behavior"; CUPTI's correlation of calls and device operations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from profiling_lab.analysis import columns
from profiling_lab.analysis.columns import COPY, Recording
from profiling_lab.errors import EmptyCapture

# What a node is. Host nodes come first; WAIT is the moment at which a thread goes on after a wait.
(
    HOST_CODE,
    LAUNCH,
    COPY_CALL,
    SYNCHRONIZE,
    ALLOCATION,
    SETUP_CALL,
    WAIT,
    HOST_FUNCTION,
    DEVICE,
) = range(9)
NODE_KINDS = (
    "host code",
    "launch",
    "copy call",
    "synchronization",
    "allocation",
    "set-up",
    "wait",
    "host function",
    "device operation",
)
# What a host call does, by its name: the first pattern that matches wins.
CALL_KINDS = (
    (
        SYNCHRONIZE,
        r"(cuda(Stream|Device|Event|Thread)Synchronize|cu(Stream|Event|Ctx)Synchronize)$",
    ),
    (LAUNCH, r"cudaLaunch|cuLaunch|cu(da)?GraphLaunch"),
    (COPY_CALL, r"cu(da)?Memcpy|cu(da)?Memset"),
    (
        ALLOCATION,
        r"cuda(Malloc|Free|HostAlloc|HostRegister|HostUnregister)|cuMem(Host)?(Alloc|Free)",
    ),
    (
        SETUP_CALL,
        r"cu(Module|Library|Kernel|Link)(Load|GetFunction|Create|AddData|Complete)"
        r"|cuda(Module|Library)|cu(da)?(DevicePrimaryCtx|Ctx)(Retain|Create|Reset)|cuInit|cudaSetDevice"
        r"|cu(da)?GraphInstantiate|cudaFuncSetAttribute",
    ),
)
# Why a link holds.
PROGRAM_ORDER, HAND_OVER, ISSUED, STREAM_ORDER, EVENT, COPY_ENGINE, WAITED = range(7)
LINK_REASONS = (
    "program order",
    "hand-over",
    "launch",
    "stream order",
    "event",
    "copy engine",
    "wait",
)

# A thread that issues no call for this long, while one other thread's calls fill at least this share of
# the time, is taken to wait for that thread.
PAUSE_NS = 100_000
PAUSE_FILLED_RATIO = 0.5
# A pool of cudaMallocAsync gives memory back to the system in the next synchronizing call, unless it is told
# to keep it (cudaMemPoolAttrReleaseThreshold). Without that such calls return 1 to 39 µs after the operation
# ended that they wait for: what is longer is the release.
WAIT_RETURN_NS = 40_000
# Least time between two operations of a stream that is never empty (queued kernels on an H200).
BACK_TO_BACK_NS = 1_000
# Pauses behind a function of the host in a stream are waits to be told where they get longer by as much as
# what the device does: a slope nearer to 1 than to 0, two standard errors from the middle, of ten or more.
TOLD_SLOPE_ERROR = 0.25
TOLD_LEAST = 10
NOT_READY = 600  # what a call that asks whether work is done returns while it is not
# A kernel this long has not ended when an ordinary launching call returns.
LONG_KERNEL_NS = 50_000
LAUNCH_BLOCKING_RATIO = (
    0.95  # of the launches of such kernels, those that return after their kernel ended
)
NEVER = -(1 << 62)  # a lag that never decides


@dataclass
class Order:
    """Nodes in an order in which each depends on earlier ones only, and the links between them.

    kind: HOST_CODE … DEVICE. row: of the recording's calls (host) or operations (DEVICE), -1 for others.
    thread: of host nodes, -1 otherwise. start: recorded; the host code that leads to a call comes before it and takes
    `lead`; the node itself takes `own`, and ends at start + own. delay: what no link explains. waits_in:
    for a WAIT the kind of the call that waits, else -1. resumes: with this the host goes on after a wait,
    up to and with the first call that issues work. links: `on`, `to`, `lag`, `why`, ordered by `to`.
    """

    recording: Recording
    kind: np.ndarray
    row: np.ndarray
    thread: np.ndarray
    start: np.ndarray
    lead: np.ndarray
    own: np.ndarray
    delay: np.ndarray
    waits_in: np.ndarray
    resumes: np.ndarray
    on: np.ndarray
    to: np.ndarray
    lag: np.ndarray
    why: np.ndarray
    node_of_operation: np.ndarray
    launches_block: bool

    @property
    def end(self) -> np.ndarray:
        """The recorded ends."""
        return self.start + self.own

    def __len__(self) -> int:
        return len(self.kind)


def read(
    recording: Recording,
    window_ns: tuple[int, int] | None = None,
    since_ns: int | None = None,
) -> Order:
    """The order of a recording.

    window_ns: keep the host calls that start inside [start, end) and the device operations that these
    issued; without it, the host calls from since_ns on, or from the first one that issued device work.
    Raises EmptyCapture if no device operation is left.
    """
    return _Builder(recording, window_ns, since_ns).build()


def call_kinds(recording: Recording) -> np.ndarray:
    """Per name code the kind of a call of that name."""
    kinds = np.full(len(recording.names), HOST_CODE, dtype=np.int8)
    for place, name in enumerate(recording.names):
        kinds[place] = next(
            (kind for kind, pattern in CALL_KINDS if re.match(pattern, name)), HOST_CODE
        )
    return kinds


def last_by_key(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Per wanted key the last place that has it; -1 if none has."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    place = np.searchsorted(ordered, wanted, side="right") - 1
    found = place >= 0
    found[found] = ordered[place[found]] == wanted[found]
    out = np.full(len(wanted), -1, dtype=np.int64)
    out[found] = order[place[found]]
    return out


def _median_low(values: np.ndarray) -> int:
    return int(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])


def _median(values: np.ndarray) -> int:
    """The median as whole ns, towards zero."""
    return int(np.median(values))


class _Builder:
    def __init__(
        self, recording: Recording, window_ns: tuple[int, int] | None, since_ns: int | None
    ) -> None:
        self.recording = recording
        self.since_ns = since_ns
        self.window_ns = window_ns

    def build(self) -> Order:
        self._choose_calls()
        self._choose_operations()
        self._classify()
        self._host_chain()
        self._streams()
        self._waits()
        self._device_links()
        return self._finish()

    # -- which calls and operations ---------------------------------------------------------------

    def _choose_calls(self) -> None:
        recording, calls = self.recording, self.recording.calls
        by_thread = np.lexsort((np.arange(len(calls)), calls.thread))
        ends, thread = calls.end[by_thread], calls.thread[by_thread]
        first = np.ones(len(calls), dtype=bool)
        first[1:] = thread[1:] != thread[:-1]
        # Ends so far of each thread: raise each thread's times above all of the thread before it.
        reach = _running_max(ends, first)
        until = np.full(len(calls), NEVER, dtype=np.int64)
        until[1:] = reach[:-1]
        until[first] = NEVER
        nested = np.zeros(len(calls), dtype=bool)
        nested[by_thread] = calls.start[by_thread] < until
        outer_of = np.arange(len(calls))
        # The outer call of a nested one: the last outer call of its thread.
        places = np.where(~nested[by_thread], np.arange(len(calls)), 0)
        outer_of[by_thread] = by_thread[np.maximum.accumulate(places)] if len(calls) else by_thread
        if self.window_ns is not None:
            low, high = self.window_ns
            inside = (calls.start >= low) & (calls.start < high)
        else:
            keys = self._keys(calls.process, calls.correlation)
            work = self._keys(recording.operations.process, recording.operations.correlation)
            issuing = np.isin(keys, work)
            begun = calls.start[issuing].min(initial=recording.operations.start[0])
            inside = calls.start >= (begun if self.since_ns is None else self.since_ns)
        self.inside = inside
        chosen = np.flatnonzero(inside & ~nested)
        self.call = chosen  # rows of the recording's calls
        self.start, self.end = calls.start[chosen].copy(), calls.end[chosen].copy()
        self.name, self.thread = calls.name[chosen], calls.thread[chosen]
        self.process = calls.process[chosen]
        self.correlation = calls.correlation[chosen].copy()
        self.polls = np.zeros(len(chosen), dtype=bool)
        self._join_polls()
        self.outer_of = outer_of

    @staticmethod
    def _keys(process: np.ndarray, correlation: np.ndarray) -> np.ndarray:
        return (process.astype(np.int64) << 44) + correlation

    def _join_polls(self) -> None:
        """Each row of queries from "not ready" to "ready" becomes one call that waits."""
        query = self.recording.names_like(r"cu(da)?(Event|Stream)Query$")[self.name]
        if not query.any():
            return
        order = np.lexsort((np.arange(len(self.name)), self.thread))
        asks = query[order]
        same = np.zeros(len(order), dtype=bool)
        same[1:] = self.thread[order][1:] == self.thread[order][:-1]
        pending = asks & (self.recording.calls.returned[self.call[order]] == NOT_READY)
        begins = pending & ~(np.append(False, pending[:-1]) & same)
        run = np.maximum.accumulate(np.where(begins, np.arange(len(order)), -1))
        ready = np.flatnonzero(asks & ~pending & same & np.append(False, pending[:-1]))
        gone = np.zeros(len(order), dtype=bool)
        for place in ready.tolist():  # one a wait
            first = run[place - 1]
            gone[first + 1 : place + 1] = True
            self.end[order[first]] = self.end[order[place]]
            self.correlation[order[first]] = self.correlation[order[place]]
            self.polls[order[first]] = True
        keep = np.ones(len(order), dtype=bool)
        keep[order[gone]] = False
        for name in ("call", "start", "end", "name", "thread", "process", "correlation", "polls"):
            setattr(self, name, getattr(self, name)[keep])

    def _choose_operations(self) -> None:
        recording, calls, work = self.recording, self.recording.calls, self.recording.operations
        keys = self._keys(calls.process, calls.correlation)
        rows = np.flatnonzero(self.inside)
        called = last_by_key(keys[rows], self._keys(work.process, work.correlation))
        has_call = called >= 0
        called[has_call] = rows[called[has_call]]
        keep = ~work.migration
        if self.window_ns is not None:
            keep &= has_call
        self.op = np.flatnonzero(keep)
        if not len(self.op):
            raise EmptyCapture(f"{recording.file}: no device operation was issued in this window")
        self.op_start, self.op_end = work.start[self.op], work.end[self.op]
        called = called[self.op]
        # When it was issued, by the innermost call that bears its correlation.
        # (A recording may hold no call at all.)
        self.op_issued = np.where(called >= 0, np.append(calls.start, 0)[called], self.op_start)
        # The place of its call among the chosen ones: the outermost, or the joined queries.
        place = last_by_key(
            self._keys(self.process, self.correlation),
            self._keys(work.process[self.op], work.correlation[self.op]),
        )
        number = np.full(len(calls) + 1, -1, dtype=np.int64)
        number[self.call] = np.arange(len(self.call))
        outer = np.where(called >= 0, number[np.append(self.outer_of, -1)[called]], -1)
        self.op_call = np.where(place >= 0, place, outer)
        self.op_stream = work.stream[self.op]
        self.op_kind = work.kind[self.op]

    def _classify(self) -> None:
        recording, work = self.recording, self.recording.operations
        kind = call_kinds(recording)[self.name]
        kind[self.polls] = SYNCHRONIZE
        copying = kind == COPY_CALL
        no_wait = recording.names_like(r".*(Async|Memset)")[self.name]
        link = np.isin(work.name, [recording.code(name) for name in columns.LINK_COPIES]) & (
            work.kind == COPY
        )
        issues = np.bincount(self.op_call[self.op_call >= 0], minlength=len(kind)) > 0
        across = np.zeros(len(kind), dtype=bool)
        crossing = link[self.op] & (self.op_call >= 0)
        across[self.op_call[crossing]] = True
        kind[copying & no_wait & issues & ~across] = LAUNCH
        self.kind = kind
        self.is_link = link[self.op]

    # -- host -------------------------------------------------------------------------------------

    def _host_chain(self) -> None:
        """Program order: the calls of a thread, host code between them, and hand-overs."""
        n = len(self.call)
        order = np.lexsort((np.arange(n), self.thread))
        self.previous = np.full(n, -1, dtype=np.int64)
        same = self.thread[order][1:] == self.thread[order][:-1]
        self.previous[order[1:][same]] = order[:-1][same]
        has = self.previous >= 0
        gap = np.zeros(n, dtype=np.int64)
        gap[has] = self.start[has] - self.end[self.previous[has]]
        self.lead = np.maximum(gap, 0)
        # Node numbers: a call's node is its place; those of waits and others follow.
        self.added: list[list[int]] = []  # kind, thread, start, lead, own, waits_in, sequence
        self.chain: dict[int, int] = {}  # call → the node before it, if not the end of `previous`
        self.end_node = np.arange(n)
        self.more: list[tuple[int, int, int, int]] = []  # on, to, lag, why, of added nodes
        self._hand_overs(order, gap)

    def _add(
        self, kind: int, thread: int, start: int, own: int, sequence: int, waits_in: int = -1
    ) -> int:
        self.added.append([kind, thread, start, own, waits_in, sequence])
        return len(self.call) + len(self.added) - 1

    def _hand_overs(self, order: np.ndarray, gap: np.ndarray) -> None:
        """Pauses in which a thread waited for another one: PyTorch's backward pass, for example."""
        long = np.flatnonzero((self.previous >= 0) & (gap >= PAUSE_NS))
        threads = np.unique(self.thread)
        if len(threads) < 2 or not len(long):
            self.handed: dict[int, int] = {}
            self.resumed: dict[int, int] = {}
            return
        rows = {int(t): order[self.thread[order] == t] for t in threads}
        process = {t: int(self.process[r[0]]) for t, r in rows.items()}
        begins: dict[int, tuple[int, int]] = {}
        resumes: dict[int, tuple[int, int]] = {}
        # In the order in which threads first call: of several that fill a pause the last one counts.
        for key in sorted(rows, key=lambda t: int(rows[t][0])):
            own = long[self.thread[long] == key]
            own = own[np.argsort(self.start[own], kind="stable")]
            low, high = self.end[self.previous[own]], self.start[own]
            for other in sorted(rows, key=lambda t: int(rows[t][0])):
                if other == key or process[other] != process[key] or not len(own):
                    continue
                starts, ends = self.start[rows[other]], self.end[rows[other]]
                first = np.searchsorted(starts, low, side="left")
                last = np.searchsorted(starts, high, side="left") - 1
                some = last >= first
                first_, last_ = np.minimum(first, len(starts) - 1), np.maximum(last, 0)
                some &= ends[last_] <= high
                some &= (first == 0) | (ends[np.maximum(first - 1, 0)] <= low)
                some &= ends[last_] - starts[first_] >= PAUSE_FILLED_RATIO * (high - low)
                for place in np.flatnonzero(some).tolist():
                    begins[int(rows[other][first[place]])] = (key, int(own[place]))
                    resumes[int(own[place])] = (other, int(rows[other][last[place]]))
        self.handed, self.resumed = {}, {}
        pending: dict[int, tuple[int, int]] = {}  # thread → the node of its code, and its end
        for call in sorted({*begins, *resumes}):
            if call in begins:
                thread, after = begins[call]
                at = int(self.start[call])
                before = int(self.previous[after])
                on, begun = pending.get(thread, (-1, NEVER))
                if on < 0 or begun < self.end[before]:
                    on, begun = before, int(self.end[before])
                code = self._add(HOST_CODE, thread, begun, max(0, at - begun), 4 * call)
                self.more.append((on, code, 0, PROGRAM_ORDER))
                self.more.append((code, call, 0, HAND_OVER))
                pending[thread] = (code, at)
                self.handed[call] = code
                self.lead[call] = 0
                if after not in resumes:
                    self.chain[after] = code
                    self.lead[after] = max(0, int(self.start[after]) - at)
            else:
                done = resumes[call][1]
                code, _ = pending.get(int(self.thread[call]), (-1, 0))
                self.chain[call] = code if code >= 0 else int(self.previous[call])
                self.more.append((done, call, 0, HAND_OVER))
                self.lead[call] = max(0, int(self.start[call] - self.end[done]))
                self.resumed[call] = done
            if call in begins and call in resumes:
                pending.pop(int(self.thread[call]), None)

    # -- streams ----------------------------------------------------------------------------------

    def _streams(self) -> None:
        """Per stream its operations in order, for questions such as "what was issued last before"."""
        m = len(self.op)
        self.by_stream = np.lexsort((np.arange(m), self.op_stream))
        stream = self.op_stream[self.by_stream]
        count = int(stream.max()) + 1 if m else 0
        self.first_of = np.searchsorted(stream, np.arange(count), side="left")
        self.after_last = np.searchsorted(stream, np.arange(count), side="right")
        first = np.ones(m, dtype=bool)
        first[1:] = stream[1:] != stream[:-1]
        issued = _running_max(self.op_issued[self.by_stream], first)
        self.times_of = [issued[a:b] for a, b in zip(self.first_of, self.after_last, strict=True)]
        present = self.after_last > self.first_of
        self.streams_of: dict[int, list[int]] = {}
        self.named: dict[tuple[int, int], list[int]] = {}
        for number, (process, _, recorded) in enumerate(self.recording.streams[:count]):
            if present[number]:
                self.streams_of.setdefault(process, []).append(number)
                self.named.setdefault((process, recorded), []).append(number)
        self.number_of = {
            key: number
            for number, key in enumerate(self.recording.streams[:count])
            if present[number]
        }

    def _stream(self, process: int, device: int, recorded: int) -> int:
        """The stream that a row of events or synchronization names; below 0 if nothing ran on it.

        Such rows give device 0 for a process that works on another one (nsys 2025.3), so the stream's number
        decides where its process has it once.
        """
        found = self.number_of.get((process, device, recorded))
        if found is not None:
            return found
        named = self.named.get((process, recorded), ())
        if len(named) == 1:
            return named[0]
        return self.idle_streams.setdefault((process, recorded), -2 - len(self.idle_streams))

    def _last_issued(self, stream: int, times: np.ndarray) -> np.ndarray:
        """Per time the last operation issued before it on a stream; -1 if none was."""
        place = np.searchsorted(self.times_of[stream], times, side="left") - 1
        rows = self.by_stream[self.first_of[stream] : self.after_last[stream]]
        return np.where(place >= 0, rows[np.maximum(place, 0)], -1)

    # -- waits ------------------------------------------------------------------------------------

    def _waits(self) -> None:
        recording = self.recording
        self.idle_streams: dict[tuple[int, int], int] = {}
        self.stream_waits: dict[int, list[tuple[int, list[int]]]] = {}
        like = recording.names_like
        released = (
            (self.kind == ALLOCATION) & like(r".*Free")[self.name] & ~like(r".*Async$")[self.name]
        )
        synced = self.kind == SYNCHRONIZE
        pairs: list[tuple[np.ndarray, np.ndarray]] = []  # call, operation waited for
        pairs.append(self._copies_waited_for())
        pairs.append(self._launches_waited_for())
        sync_row = np.full(len(self.call), -1, dtype=np.int64)
        waiting = like(r".*StreamWaitEvent$")[self.name]
        asked = np.flatnonzero(synced | waiting)
        if len(recording.syncs):
            sync_row[asked] = last_by_key(
                self._keys(recording.syncs.process, recording.syncs.correlation),
                self._keys(self.process[asked], self.correlation[asked]),
            )
        event_named, stream_named = like(r".*Event")[self.name], like(r".*Stream")[self.name]
        on_stream = synced & ~event_named & stream_named & (sync_row >= 0)
        if on_stream.any():
            on_stream[on_stream] = recording.syncs.stream[sync_row[on_stream]] != columns.NO_NUMBER
        on_event = synced & event_named
        everything = released | (synced & ~on_stream & ~on_event)
        pairs += self._everything_waited_for(np.flatnonzero(everything))
        pairs += self._named_waited_for(
            np.flatnonzero(waiting & ~synced),
            np.flatnonzero(on_event),
            np.flatnonzero(on_stream),
            sync_row,
        )
        call = np.concatenate([p[0] for p in pairs])
        work = np.concatenate([p[1] for p in pairs])
        unfinished = self.op_end[work] > self.start[call]
        call, work = call[unfinished], work[unfinished]
        self._add_waits(call, work)
        self._told()

    def _copies_waited_for(self) -> tuple[np.ndarray, np.ndarray]:
        """Blocking copies: those without "Async" or "Batch" in their name, and of pageable memory."""
        returns = self.recording.names_like(r".*(Async|Batch)")[self.name]
        own = np.flatnonzero((self.op_call >= 0) & (self.op_kind == COPY))
        call = self.op_call[own]
        pageable = self.recording.operations.pageable[self.op[own]]
        waits = (self.kind[call] == COPY_CALL) & (pageable | ~returns[call])
        return call[waits], own[waits]

    def _launches_waited_for(self) -> tuple[np.ndarray, np.ndarray]:
        """Launches that last until their kernel ends: CUDA_LAUNCH_BLOCKING=1 makes all of them do so."""
        own = np.flatnonzero((self.op_call >= 0) & (self.op_kind == columns.KERNEL))
        call = self.op_call[own]
        own, call = own[self.kind[call] == LAUNCH], call[self.kind[call] == LAUNCH]
        length = self.op_end[own] - self.op_start[own]
        long = length >= LONG_KERNEL_NS
        late = self.end[call] >= self.op_end[own]
        self.launches_block = bool(long.any() and late[long].mean() >= LAUNCH_BLOCKING_RATIO)
        if not self.launches_block:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return call[late], own[late]

    def _everything_waited_for(self, calls: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Waits for all that a process issued: of each stream the last operation that ended in time."""
        out = []
        for process, streams in self.streams_of.items():
            own = calls[self.process[calls] == process]
            if not len(own):
                continue
            for stream in streams:
                last = self._last_issued(stream, self.start[own])
                # A wait for one device says nothing of another's work that went on after it.
                good = (last >= 0) & (self.op_end[last] <= self.end[own])
                out.append((own[good], last[good]))
        return out

    def _named_waited_for(
        self,
        stream_waits: np.ndarray,
        event_calls: np.ndarray,
        stream_calls: np.ndarray,
        sync_row: np.ndarray,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Waits for an event or a stream, and streams that wait for events, in the order of their calls."""
        syncs = self.recording.syncs
        recorded_at = self._event_records()
        if not len(stream_waits) or not recorded_at:
            # Nothing makes a stream wait: the last operation issued to a stream is all there is.
            out = [self._simple_stream_waits(stream_calls, sync_row)]
            if not len(event_calls):
                return out
            stream_calls = stream_calls[:0]
        else:
            out = []
        found: list[tuple[int, int]] = []
        kinds = {int(c): 0 for c in stream_waits} | {int(c): 1 for c in event_calls}
        kinds |= {int(c): 2 for c in stream_calls}
        for call in sorted(kinds):
            process, start, row = (
                int(self.process[call]),
                int(self.start[call]),
                int(sync_row[call]),
            )
            record = None
            if row >= 0:
                record = recorded_at.get((process, int(syncs.event[row])))
            if kinds[call] == 0:
                if record is not None and (sources := self._reached(*record)):
                    stream = self._stream(process, int(syncs.device[row]), int(syncs.stream[row]))
                    self.stream_waits.setdefault(stream, []).append((start, sources))
            elif kinds[call] == 2:
                stream = self._stream(process, int(syncs.device[row]), int(syncs.stream[row]))
                found += [(call, operation) for operation in self._reached(stream, start)]
            elif record is not None:
                found += [(call, operation) for operation in self._reached(*record)]
            else:
                found += self._last_ended(call, process)
        pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
        return [*out, (pairs[:, 0], pairs[:, 1])]

    def _simple_stream_waits(
        self, calls: np.ndarray, sync_row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        syncs = self.recording.syncs
        rows = sync_row[calls]
        kept: list[np.ndarray] = []
        last: list[np.ndarray] = []
        number, keys = columns.number_rows(
            self.process[calls], syncs.device[rows], syncs.stream[rows]
        )
        for place, (process, device, recorded) in enumerate(keys):
            stream = self._stream(process, device, recorded)
            if stream < 0:
                continue
            own = calls[number == place]
            found = self._last_issued(stream, self.start[own])
            kept.append(own[found >= 0])
            last.append(found[found >= 0])
        none = np.zeros(0, dtype=np.int64)
        return np.concatenate([none, *kept]), np.concatenate([none, *last])

    def _last_ended(self, call: int, process: int) -> list[tuple[int, int]]:
        """For a wait for an event that nobody knows: what was issued before and ended last in time."""
        best = -1
        start, end = int(self.start[call]), int(self.end[call])
        for stream in self.streams_of.get(process, ()):
            rows = self.by_stream[self.first_of[stream] : self.after_last[stream]]
            place = int(np.searchsorted(self.times_of[stream], start, side="left"))
            place = min(place, int(np.searchsorted(self.op_end[rows], end, side="right")))
            if place and self.op_end[rows[place - 1]] > start:
                candidate = int(rows[place - 1])
                if best < 0 or self.op_end[candidate] > self.op_end[best]:
                    best = candidate
        return [(call, best)] if best >= 0 else []

    def _event_records(self) -> dict[tuple[int, int], tuple[int, int]]:
        """(process, event) → the stream that it was recorded into, and when."""
        records, calls = self.recording.event_records, self.recording.calls
        if not len(records):
            return {}
        rows = np.flatnonzero(self.inside)
        place = last_by_key(
            self._keys(calls.process[rows], calls.correlation[rows]),
            self._keys(records.process, records.correlation),
        )
        out = {}
        for number in np.flatnonzero((place >= 0) & (records.event != columns.NO_NUMBER)).tolist():
            process = int(records.process[number])
            stream = self._stream(process, int(records.device[number]), int(records.stream[number]))
            out[process, int(records.event[number])] = (
                stream,
                int(calls.start[rows[place[number]]]),
            )
        return out

    def _reached(self, stream: int, time_ns: int) -> list[int]:
        """What ends before a stream gets to what is issued to it at a time.

        That is the last operation issued before, and what the stream was made to wait for after that: a
        library may use a stream that runs nothing, only to pass events on.
        """
        found: list[int] = []
        since = -1
        if stream >= 0:
            place = int(np.searchsorted(self.times_of[stream], time_ns, side="left"))
            if place:
                found = [int(self.by_stream[self.first_of[stream] + place - 1])]
                since = int(self.op_issued[found[0]])
        waits = self.stream_waits.get(stream, ())
        for at, sources in reversed(waits):
            if at <= since:
                break
            if at < time_ns:
                found += sources
        latest: dict[int, int] = {}
        for operation in sorted(found, key=lambda o: int(self.op_issued[o])):
            latest[int(self.op_stream[operation])] = operation
        return list(latest.values())

    def _add_waits(self, call: np.ndarray, work: np.ndarray) -> None:
        """A node for the end of each wait; of memory freed to a pool, one for its release as well."""
        self.wait_call = np.unique(call)
        base = len(self.call) + len(self.added)
        number = np.full(len(self.call), -1, dtype=np.int64)
        number[self.wait_call] = base + np.arange(len(self.wait_call))
        self.wait_base = base
        wait_end = self.end[self.wait_call].copy()
        lag = self.end[call] - self.op_end[work]
        # Releases
        over = np.zeros(len(self.wait_call), dtype=np.int64)
        freed = self.recording.names_like(r"(cudaFreeAsync|cuMemFreeAsync)$")[self.name]
        if freed.any():
            pending: set[int] = set()
            waits = set(self.wait_call.tolist())
            place = {int(c): i for i, c in enumerate(self.wait_call)}
            least = np.full(len(self.call), np.iinfo(np.int64).max)
            np.minimum.at(least, call, lag)
            for row in np.flatnonzero(freed | (self.kind == SYNCHRONIZE)).tolist():
                process = int(self.process[row])
                if freed[row]:
                    pending.add(process)
                    continue
                if row in waits and process in pending:
                    over[place[row]] = max(0, int(least[row]) - WAIT_RETURN_NS)
                pending.discard(process)
            at = np.searchsorted(self.wait_call, call)
            lag = lag - over[at]
        wait_end -= over
        self.wait_nodes = (self.wait_call, wait_end, over)
        self.end_node[self.wait_call] = number[self.wait_call]
        self.wait_links = (number[call], work, lag)

    def _told(self) -> None:
        """Pauses in which a thread waited, without a CUDA call, to be told that work is done."""
        put = self.recording.names_like(r"cu(da)?(LaunchHostFunc|StreamAddCallback)$")[self.name]
        self.told: dict[int, tuple[int, int]] = {}  # call → (previous call, operation)
        self.put = put
        if not put.any():
            return
        after = np.flatnonzero(self.previous >= 0)
        before = self.previous[after]
        pauses = after[put[before] & (self.start[after] - self.end[before] >= PAUSE_NS)]
        pauses = np.array(
            [p for p in pauses.tolist() if p not in self.handed and p not in self.resumed],
            dtype=np.int64,
        )
        for thread in np.unique(self.thread[pauses]).tolist() if len(pauses) else ():
            own = pauses[self.thread[pauses] == thread]
            process = int(self.process[own[0]])
            issued = np.flatnonzero(self.op_call >= 0)
            issued = issued[self.process[self.op_call[issued]] == process]
            issued = issued[np.argsort(self.op_call[issued], kind="stable")]
            times = self.start[self.op_call[issued]]
            low = self.end[self.previous[own]]
            place = np.searchsorted(times, low, side="left")
            some = place < len(times)
            own, low, place = own[some], low[some], place[some]
            ended = issued[place]
            some = self.op_end[ended] <= self.start[own]
            own, low, ended = own[some], low[some], ended[some]
            if _follow(self.op_end[ended] - low, self.start[own] - low):
                for call, operation in zip(own.tolist(), ended.tolist(), strict=True):
                    self.told[call] = (int(self.previous[call]), operation)

    # -- device -----------------------------------------------------------------------------------

    def _device_links(self) -> None:
        work = self.recording.operations
        call = self.op_call
        has = call >= 0
        before = np.full(len(self.op), -1, dtype=np.int64)
        order, stream = self.by_stream, self.op_stream[self.by_stream]
        same = stream[1:] == stream[:-1]
        before[order[1:][same]] = order[:-1][same]
        # A wait's call ends for what it issued when it has submitted it: its own cost ends at its start.
        waits = np.zeros(len(self.call), dtype=bool)
        waits[self.wait_call] = True
        self.call_own = np.where(waits, 0, self.end - self.start)
        submitted = np.zeros(len(self.op), dtype=np.int64)
        submitted[has] = self.start[call[has]] + self.call_own[call[has]]
        own = np.append(self.call_own, 0)[call]  # (a recording may hold no call at all)
        idle = has & ((before < 0) | (self.op_end[before] <= submitted - own))
        typical = {
            kind: _median(self.op_start[rows] - submitted[rows])
            for kind in np.unique(self.op_kind).tolist()
            if len(rows := np.flatnonzero(idle & (self.op_kind == kind)))
        }
        fallback = min(typical.values(), default=0)
        least = np.array([typical.get(kind, fallback) for kind in range(4)])[self.op_kind]
        queued = has & ~idle & (submitted + least <= self.op_end[before])
        gaps = np.maximum(0, self.op_start[queued] - self.op_end[before[queued]])
        order_lag = min(_median_low(gaps), BACK_TO_BACK_NS) if len(gaps) else BACK_TO_BACK_NS
        self.typical, self.order_lag = typical, order_lag

        rows = np.flatnonzero(has)
        lag = np.minimum(least[rows], self.op_start[rows] - submitted[rows])
        self.device_links: list[tuple[np.ndarray, np.ndarray, np.ndarray, int, bool]] = [
            (call[rows], rows, lag, ISSUED, True)
        ]
        rows = np.flatnonzero(before >= 0)
        lag = np.minimum(self.op_start[rows] - self.op_end[before[rows]], order_lag)
        self.device_links.append((before[rows], rows, lag, STREAM_ORDER, False))
        copies = np.flatnonzero(self.op_kind == COPY)
        if len(copies):
            engine, _ = columns.number_rows(
                work.device[self.op[copies]], work.name[self.op[copies]]
            )
            grouped = copies[np.lexsort((copies, engine))]
            engine = engine[np.lexsort((copies, engine))]
            one, two = grouped[:-1], grouped[1:]
            good = (engine[1:] == engine[:-1]) & (self.op_end[one] <= self.op_start[two])
            zero = np.zeros(int(good.sum()), dtype=np.int64)
            self.device_links.append((one[good], two[good], zero, COPY_ENGINE, False))
        found = []
        for stream_number, stream_waits in self.stream_waits.items():
            if stream_number < 0:
                continue
            times = self.times_of[stream_number]
            low = self.first_of[stream_number]
            for at, sources in stream_waits:
                place = int(np.searchsorted(times, at, side="left"))
                if place == len(times):
                    continue
                target = int(self.by_stream[low + place])
                for source in sources:
                    gap = int(self.op_start[target] - self.op_end[source])
                    if gap >= 0:
                        found.append((source, target, min(gap, order_lag)))
        if found:
            links = np.array(found, dtype=np.int64)
            self.device_links.append((links[:, 0], links[:, 1], links[:, 2], EVENT, False))
        self.before = before

    # -- result -----------------------------------------------------------------------------------

    def _finish(self) -> Order:
        n, m = len(self.call), len(self.op)
        wait_call, wait_end, over = self.wait_nodes
        added = np.array(self.added, dtype=np.int64).reshape(-1, 6)
        # Host nodes: calls, added code, waits, releases, and threads that were told.
        released = np.flatnonzero(over > 0)
        told_calls = np.array(sorted(self.told), dtype=np.int64)
        release_base = self.wait_base + len(wait_call)
        told_base = release_base + len(released)
        hosts = told_base + len(told_calls)
        kind = np.concatenate(
            [
                self.kind,
                added[:, 0],
                np.full(len(wait_call), WAIT),
                np.full(len(released), ALLOCATION),
                np.full(len(told_calls), WAIT),
            ]
        ).astype(np.int8)
        thread = np.concatenate(
            [
                self.thread,
                added[:, 1],
                self.thread[wait_call],
                self.thread[wait_call[released]],
                self.thread[told_calls],
            ]
        ).astype(np.int32)
        start = np.concatenate(
            [
                self.start,
                added[:, 2],
                wait_end,
                wait_end[released],
                self.start[told_calls],
            ]
        )
        own = np.concatenate(
            [
                self.call_own,
                added[:, 3],
                np.zeros(len(wait_call), dtype=np.int64),
                over[released],
                np.zeros(len(told_calls), dtype=np.int64),
            ]
        )
        waits_in = np.full(hosts, -1, dtype=np.int8)
        waits_in[self.wait_base : release_base] = self.kind[wait_call]
        waits_in[told_base:] = SYNCHRONIZE
        row = np.full(hosts, -1, dtype=np.int64)
        row[:n] = self.call
        row[self.wait_base : release_base] = self.call[wait_call]
        row[release_base:told_base] = self.call[wait_call[released]]
        sequence = np.concatenate(
            [
                4 * np.arange(n) + 1,
                added[:, 5],
                4 * wait_call + 2,
                4 * wait_call[released] + 3,
                4 * told_calls,
            ]
        )
        lead = np.zeros(hosts, dtype=np.int64)
        lead[:n] = self.lead
        lead[told_calls] = 0
        self.end_node[wait_call[released]] = release_base + np.arange(len(released))
        # Links among host nodes.
        links: list[tuple[np.ndarray, np.ndarray, np.ndarray, int]] = []

        def link(on: Any, to: Any, lag: Any, why: int) -> None:
            on, to = np.asarray(on, dtype=np.int64), np.asarray(to, dtype=np.int64)
            links.append((on, to, np.broadcast_to(np.asarray(lag, dtype=np.int64), on.shape), why))

        calls = np.flatnonzero(self.previous >= 0)
        before = self.end_node[self.previous[calls]]
        for call, node in self.chain.items():
            before[np.searchsorted(calls, call)] = node if node >= n else self.end_node[node]
        told_node = told_base + np.arange(len(told_calls))
        if len(told_calls):
            place = np.searchsorted(calls, told_calls)
            link(before[place], told_node, 0, PROGRAM_ORDER)
            before[place] = told_node
        link(before, calls, 0, PROGRAM_ORDER)
        for on, to, lag, why in self.more:
            source = on if on >= n else int(self.end_node[on])
            link([source], [to], lag, why)
        link(wait_call, self.wait_base + np.arange(len(wait_call)), 0, PROGRAM_ORDER)
        link(self.wait_base + released, release_base + np.arange(len(released)), 0, PROGRAM_ORDER)
        wait_node, waited, lag = self.wait_links
        link(hosts + waited, wait_node, lag, WAITED)
        for place, call in enumerate(told_calls.tolist()):
            operation = self.told[call][1]
            link(
                [hosts + operation],
                [told_base + place],
                int(self.start[call] - self.op_end[operation]),
                WAITED,
            )
        for on, to, lags, why, from_host in self.device_links:
            link(on if from_host else hosts + on, hosts + to, lags, why)
        # All nodes: hosts by sequence first, so that a stable sort by time keeps a thread's order.
        by_sequence = np.argsort(sequence, kind="stable")
        place = np.concatenate([by_sequence, hosts + np.arange(m)])
        start = np.concatenate([start, self.op_start])
        order = place[np.argsort(start[place], kind="stable")]
        number = np.empty(hosts + m, dtype=np.int64)
        number[order] = np.arange(hosts + m)

        def all_nodes(host: np.ndarray, device: Any) -> np.ndarray:
            rest = np.broadcast_to(np.asarray(device, dtype=host.dtype), (m,))
            return np.concatenate([host, rest])[order]

        on = number[np.concatenate([entry[0] for entry in links])]
        to = number[np.concatenate([entry[1] for entry in links])]
        lag = np.concatenate([entry[2] for entry in links])
        why = np.concatenate([np.full(len(entry[0]), entry[3], dtype=np.int8) for entry in links])
        # Clocks of host and device may disagree by a microsecond.
        good = np.flatnonzero(on < to)
        good = good[np.argsort(to[good], kind="stable")]
        on, to, lag, why = on[good], to[good], lag[good], why[good]
        out = Order(
            recording=self.recording,
            kind=all_nodes(kind, DEVICE),
            row=np.concatenate([row, self.op])[order],
            thread=all_nodes(thread, -1),
            start=start[order],
            lead=all_nodes(lead, 0),
            own=np.concatenate([own, self.op_end - self.op_start])[order],
            delay=np.zeros(hosts + m, dtype=np.int64),
            waits_in=all_nodes(waits_in, -1),
            resumes=np.zeros(hosts + m, dtype=bool),
            on=on,
            to=to,
            lag=lag,
            why=why,
            node_of_operation=number[hosts:],
            launches_block=self.launches_block,
        )
        out.delay[:] = _delays(out)
        out.resumes[:] = _resumes(out)
        return out


def _running_max(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The running maximum within groups; `first` marks where a group begins."""
    if not len(values):
        return values
    low = int(values.min())
    span = int(values.max()) - low + 1
    group = np.cumsum(first) - 1
    raised = (values - low) + group * span
    return np.maximum.accumulate(raised) - group * span + low


def _delays(order: Order) -> np.ndarray:
    """By how much each node started later than its links allow; 0 for those without a link."""
    delay = np.zeros(len(order), dtype=np.int64)
    if len(order.to):
        allowed = order.end[order.on] + order.lag
        first = np.flatnonzero(np.append(True, order.to[1:] != order.to[:-1]))
        earliest = np.maximum.reduceat(allowed, first)
        nodes = order.to[first]
        delay[nodes] = order.start[nodes] - order.lead[nodes] - earliest
    return delay


def _resumes(order: Order) -> np.ndarray:
    """Host nodes with which a thread goes on after a wait, up to and with the first that issues work."""
    host = np.flatnonzero(order.thread >= 0)
    by_thread = host[np.argsort(order.thread[host], kind="stable")]
    thread = order.thread[by_thread]
    first = np.ones(len(by_thread), dtype=bool)
    first[1:] = thread[1:] != thread[:-1]
    place = np.arange(len(by_thread))
    waited = np.where(order.kind[by_thread] == WAIT, place, -1)
    issued = np.where(np.isin(order.kind[by_thread], (LAUNCH, COPY_CALL)), place, -1)

    def last_before(marks: np.ndarray) -> np.ndarray:
        shifted = np.full(len(marks), -1, dtype=np.int64)
        shifted[1:] = marks[:-1]
        shifted[first] = -1
        begin = np.maximum.accumulate(np.where(first, place, 0)) if len(place) else place
        reached = np.maximum.accumulate(shifted) if len(shifted) else shifted
        return np.where(reached >= begin, reached, -1)

    out = np.zeros(len(order), dtype=bool)
    out[by_thread] = last_before(waited) > last_before(issued)
    return out


def _follow(causes: np.ndarray, effects: np.ndarray) -> bool:
    """Whether effects grow by as much as their causes do; see TOLD_SLOPE_ERROR."""
    if len(causes) < TOLD_LEAST or causes.min() == causes.max():
        return False
    x, y = causes - causes.mean(), effects - effects.mean()
    slope = float((x * y).sum() / (x * x).sum())
    rest = float(((y - slope * x) ** 2).sum())
    error_squared = rest / (len(causes) - 2) / float((x * x).sum())
    return abs(slope - 1) < 0.5 and error_squared <= TOLD_SLOPE_ERROR**2
