"""From calls, operations and waits to the nodes and links of an order."""

from __future__ import annotations

from typing import Any

import numpy as np

from profiling_lab.analysis import columns
from profiling_lab.analysis.columns import BLOCKING, COPY, LEGACY_DEFAULT
from profiling_lab.analysis.order import (
    ALLOCATION,
    BACK_TO_BACK_NS,
    COPY_ENGINE,
    DEVICE,
    EVENT,
    ISSUED,
    LEGACY,
    PROGRAM_ORDER,
    STREAM_ORDER,
    SYNCHRONIZE,
    WAIT,
    WAITED,
    Order,
    median,
    median_low,
)
from profiling_lab.analysis.order_waits import Waits

CLOCK_NS = 1_000  # by which an operation may seem to start before what it waits for has ended


class Builder(Waits):
    """All phases, one after the other."""

    def build(self) -> Order:
        """The order of the recording; what follows from it (delay, held, resumes) is empty."""
        self._choose_calls()
        self._choose_operations()
        self._classify()
        self._host_chain()
        self._streams()
        self._waits()
        self._device_links()
        return self._finish()

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
            kind: median(self.op_start[rows] - submitted[rows])
            for kind in np.unique(self.op_kind).tolist()
            if len(rows := np.flatnonzero(idle & (self.op_kind == kind)))
        }
        fallback = min(typical.values(), default=0)
        least = np.array([typical.get(kind, fallback) for kind in range(4)])[self.op_kind]
        queued = has & ~idle & (submitted + least <= self.op_end[before])
        gaps = np.maximum(0, self.op_start[queued] - self.op_end[before[queued]])
        order_lag = min(median_low(gaps), BACK_TO_BACK_NS) if len(gaps) else BACK_TO_BACK_NS
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
        self._legacy_links()
        self.before = before

    def _legacy_links(self) -> None:
        """The order that the legacy default stream and the blocking streams of a device keep, both ways.

        A stream of which one operation overtakes is in another context, or was not what it is told to be: none of
        its pairs counts.
        """
        sides: dict[tuple[int, int], dict[int, list[int]]] = {}
        for stream, kind in self.recording.stream_types.items():
            ran = stream < len(self.first_of) and self.first_of[stream] < self.after_last[stream]
            if ran and kind in (BLOCKING, LEGACY_DEFAULT):
                process, device, _ = self.recording.streams[stream]
                own = sides.setdefault((process, device), {BLOCKING: [], LEGACY_DEFAULT: []})
                own[kind].append(stream)
        for own in sides.values():
            for legacy in own[LEGACY_DEFAULT]:
                for blocking in own[BLOCKING]:
                    pairs = [
                        self._last_before(*two) for two in ((legacy, blocking), (blocking, legacy))
                    ]
                    on, to = (np.concatenate(side) for side in zip(*pairs, strict=True))
                    gap = self.op_start[to] - self.op_end[on]
                    if len(gap) and gap.min() >= -CLOCK_NS:
                        lag = np.minimum(gap, self.order_lag)
                        self.device_links.append((on, to, lag, LEGACY, False))

    def _last_before(self, one: int, other: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of operations: the last of one stream that was issued before each of another, first ones only."""
        rows = self.by_stream[self.first_of[other] : self.after_last[other]]
        rows = rows[self.op_call[rows] >= 0]
        last = self._last_issued(one, self.op_issued[rows])
        fresh = (last >= 0) & np.append(True, last[1:] != last[:-1])
        return last[fresh], rows[fresh]

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
        number = np.empty(hosts + m, dtype=np.int32)
        number[order] = np.arange(hosts + m, dtype=np.int32)

        def all_nodes(host: np.ndarray, device: Any) -> np.ndarray:
            rest = np.broadcast_to(np.asarray(device, dtype=host.dtype), (m,))
            return np.concatenate([host, rest])[order]

        on = np.concatenate([number[entry[0]] for entry in links])
        to = np.concatenate([number[entry[1]] for entry in links])
        lag = np.concatenate([entry[2] for entry in links])
        why = np.concatenate([np.full(len(entry[0]), entry[3], dtype=np.int8) for entry in links])
        links.clear()
        self.device_links.clear()
        # Clocks of host and device may disagree by a microsecond.
        good = np.flatnonzero(on < to)
        good = good[np.argsort(to[good], kind="stable")]
        on, to, lag, why = on[good], to[good], lag[good], why[good]
        del good, by_sequence, place
        none = np.zeros(0, dtype=np.int64)
        thread = all_nodes(thread, -1)
        return Order(
            recording=self.recording,
            kind=all_nodes(kind, DEVICE),
            row=np.concatenate([row, self.op]).astype(np.int32)[order],
            thread=thread,
            for_thread=thread,
            start=start[order],
            lead=all_nodes(lead, 0),
            own=np.concatenate([own, self.op_end - self.op_start])[order],
            delay=none,
            held=none,
            waits_in=all_nodes(waits_in, -1),
            resumes=none,
            on=on,
            to=to,
            lag=lag,
            why=why,
            launches_block=self.launches_block,
        )
