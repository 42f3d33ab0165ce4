"""Which calls and operations an order is of, and in which order threads made them."""

from __future__ import annotations

import numpy as np

from profiling_lab.analysis import columns
from profiling_lab.analysis.columns import COPY, Recording
from profiling_lab.analysis.order import (
    COPY_CALL,
    HAND_OVER,
    HOST_CODE,
    LAUNCH,
    NEVER,
    NOT_READY,
    PAUSE_FILLED_RATIO,
    PAUSE_NS,
    PROGRAM_ORDER,
    SETUP_CALL,
    SYNCHRONIZE,
    call_kinds,
    last_by_key,
    running_max,
)
from profiling_lab.errors import EmptyCapture


class Calls:
    """Calls, operations, and what a thread does one after the other; its pauses handed over to others."""

    def __init__(
        self,
        recording: Recording,
        window_ns: tuple[int, int] | None,
        since_ns: int | None,
        pauses_tell: bool,
        watchdogs: bool,
    ) -> None:
        self.recording = recording
        self.pauses_tell = pauses_tell
        self.watchdogs = watchdogs
        self.since_ns = since_ns
        self.window_ns = window_ns

    # -- which calls and operations ---------------------------------------------------------------

    def _choose_calls(self) -> None:
        recording, calls = self.recording, self.recording.calls
        by_thread = np.lexsort((np.arange(len(calls)), calls.thread))
        ends, thread = calls.end[by_thread], calls.thread[by_thread]
        first = np.ones(len(calls), dtype=bool)
        first[1:] = thread[1:] != thread[:-1]
        # Ends so far of each thread: raise each thread's times above all of the thread before it.
        reach = running_max(ends, first)
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
        gives = ~np.isin(self.kind, (HOST_CODE, SETUP_CALL)) & ~self.polls
        threads = np.unique(self.thread[gives | self.watchdogs])
        if len(threads) < 2 or not len(long) or not self.pauses_tell:
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
