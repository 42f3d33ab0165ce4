"""The steps of a recording: how long each took, and how busy the device was meanwhile."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from profiling_lab.analysis import intervals, nesting
from profiling_lab.analysis.columns import Recording
from profiling_lab.analysis.intervals import Intervals
from profiling_lab.units import without_serial_numbers

if TYPE_CHECKING:
    from profiling_lab.analysis.kineto_columns import Trace

LEAST = 3  # of fewer there is no spread


def read(
    recording: Recording, window_ns: tuple[int, int], trace: Trace | None = None
) -> dict[str, Any]:
    """How long steps took; {} with fewer than three. One is over when the next begins, or the last ends, and the
    device is done with what it launched: a host that runs ahead does not make it shorter.

    name, count, mean_ns, stdev_ns, and rows of number, start_ns, length_ns, busy_ns (of the busiest device);
    slowest: the number of one. Steps are those of PyTorch's profiler, or the outermost of the ranges that
    come again and again, of these the one that takes most time.
    """
    name, spans = _spans(recording, window_ns, trace)
    if len(spans) < LEAST:
        return {}
    edges = _edges(recording, spans)
    rows = [
        {"number": number, "start_ns": begin, "length_ns": end - begin, "busy_ns": busy}
        for number, (begin, end, busy) in enumerate(
            zip(edges, edges[1:], _busy(recording, edges), strict=False), start=1
        )
    ]
    lengths = [row["length_ns"] for row in rows]
    slowest = max(rows, key=lambda row: row["length_ns"])
    return {
        "name": name,
        "count": len(rows),
        "mean_ns": statistics.fmean(lengths),
        "stdev_ns": statistics.stdev(lengths),
        "slowest": slowest["number"],
        "slowest_ns": slowest["length_ns"],
        "rows": rows,
    }


def _edges(recording: Recording, spans: list[tuple[int, int]]) -> list[int]:
    """When the first step begins, and when each is over."""
    calls, work = recording.calls, recording.operations
    starts = np.array([start for start, _ in spans])
    # One number for a process and correlation; of several calls with it the first, which is the outer one, launched.
    launched, first = np.unique(
        calls.process.astype(np.int64) << 40 | calls.correlation & (1 << 40) - 1, return_index=True
    )
    wanted = work.process.astype(np.int64) << 40 | work.correlation & (1 << 40) - 1
    at = np.searchsorted(launched, wanted).clip(max=len(launched) - 1)
    known = np.flatnonzero((launched[at] == wanted) & (work.correlation > 0)) if len(calls) else []
    issued = calls.start[first[at[known]]] if len(calls) else starts[:0]
    step = np.searchsorted(starts, issued, side="right") - 1
    own = (step >= 0) & (issued < spans[-1][1])
    over = np.append(starts[1:], spans[-1][1])
    np.maximum.at(over, step[own], work.end[known][own])
    return [spans[0][0], *np.maximum.accumulate(over).tolist()]


def _busy(recording: Recording, edges: list[int]) -> list[int]:
    """Between one edge and the next, how long the device worked that worked most."""
    work = recording.operations
    best = [0] * (len(edges) - 1)
    for device in recording.devices:
        own = work.device == device
        merged = intervals.union(Intervals(work.start[own], work.end[own]))
        parts = [
            intervals.total_ns(intervals.clip(merged, begin, end))
            for begin, end in itertools.pairwise(edges)
        ]
        if sum(parts) > sum(best):
            best = parts
    return best


def _spans(
    recording: Recording, window_ns: tuple[int, int], trace: Trace | None
) -> tuple[str, list[tuple[int, int]]]:
    """The steps of a recording, in order, and what they are called."""
    if trace is not None and trace.steps_ns:
        return "ProfilerStep", sorted(trace.steps_ns)
    table = recording.ranges
    if not len(table):
        return "", []
    start, end = window_ns
    told = nesting.read(recording, table, window_ns)
    seen = np.flatnonzero((table.start < end) & (table.end > start))
    groups: dict[tuple[str, int], list[int]] = {}
    for row in seen.tolist():
        name = without_serial_numbers(recording.names[int(table.name[row])])
        groups.setdefault((name, int(table.thread[row])), []).append(row)
    repeats = np.zeros(len(table), dtype=bool)
    for rows in groups.values():
        repeats[rows] = len(rows) >= LEAST
    # Inside of a range that comes again are parts of steps; inside of one that comes once ("training") are steps.
    part = np.zeros(len(table), dtype=bool)
    for row in np.lexsort((-table.end, table.start)).tolist():
        above = told.parent[row]
        part[row] = above >= 0 and (part[above] or repeats[above])
    again = {
        key: whole
        for key, rows in groups.items()
        if len(whole := [row for row in rows if not part[row]]) >= LEAST
    }
    if not again:
        return "", []
    key, rows = max(again.items(), key=lambda item: int(told.host[item[1]].sum()))
    return key[0], sorted((int(table.start[row]), int(table.end[row])) for row in rows)
