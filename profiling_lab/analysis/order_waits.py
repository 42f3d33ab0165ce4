"""Which operations each call and each stream waited for."""

from __future__ import annotations

import numpy as np

from profiling_lab.analysis import columns
from profiling_lab.analysis.columns import COPY
from profiling_lab.analysis.order import (
    ALLOCATION,
    COPY_CALL,
    LAUNCH,
    LAUNCH_BLOCKING_RATIO,
    LONG_KERNEL_NS,
    PAUSE_NS,
    SYNCHRONIZE,
    TOLD_LEAST,
    TOLD_SLOPE_ERROR,
    WAIT_RETURN_NS,
    last_by_key,
    running_max,
)
from profiling_lab.analysis.order_calls import Calls


class Waits(Calls):
    """Streams, and the waits of calls for what was issued to them."""

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
        issued = running_max(self.op_issued[self.by_stream], first)
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
            (self.kind == ALLOCATION)
            & like(r".*Free")[self.name]
            & ~like(r".*(Async|AddressFree)$")[self.name]
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
                elif process in pending and self.end[row] - self.start[row] > WAIT_RETURN_NS:
                    self.kind[row] = ALLOCATION  # there was nothing to wait for
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
            if follow(self.op_end[ended] - low, self.start[own] - low):
                for call, operation in zip(own.tolist(), ended.tolist(), strict=True):
                    self.told[call] = (int(self.previous[call]), operation)


def follow(causes: np.ndarray, effects: np.ndarray) -> bool:
    """Whether effects grow by as much as their causes do; see TOLD_SLOPE_ERROR."""
    if len(causes) < TOLD_LEAST or causes.min() == causes.max():
        return False
    x, y = causes - causes.mean(), effects - effects.mean()
    slope = float((x * y).sum() / (x * x).sum())
    rest = float(((y - slope * x) ** 2).sum())
    error_squared = rest / (len(causes) - 2) / float((x * x).sum())
    return abs(slope - 1) < 0.5 and error_squared <= TOLD_SLOPE_ERROR**2
