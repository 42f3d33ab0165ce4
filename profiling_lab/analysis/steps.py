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
    """How long steps took, from one start to the next (the last to its end); {} with fewer than three.

    name, count, mean_ns, stdev_ns, and rows of number, start_ns, length_ns, busy_ns (of the busiest device);
    slowest: the number of one. Steps are those of PyTorch's profiler, or the outermost range that comes again
    and again and takes most time.
    """
    name, spans = _spans(recording, window_ns, trace)
    if len(spans) < LEAST:
        return {}
    edges = [start for start, _ in spans] + [spans[-1][1]]
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
    outer = np.flatnonzero((told.parent < 0) & (table.start < end) & (table.end > start))
    groups: dict[tuple[str, int], list[int]] = {}
    for row in outer.tolist():
        name = without_serial_numbers(recording.names[int(table.name[row])])
        groups.setdefault((name, int(table.thread[row])), []).append(row)
    again = {key: rows for key, rows in groups.items() if len(rows) >= LEAST}
    if not again:
        return "", []
    key, rows = max(again.items(), key=lambda item: int(told.host[item[1]].sum()))
    return key[0], sorted((int(table.start[row]), int(table.end[row])) for row in rows)
