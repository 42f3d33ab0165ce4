"""What a window's time was spent on, by name: kernels, ranges, operators; and what lies outside of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from profiling_lab.analysis.columns import GRAPH, KERNEL, Ranges, Recording

MOST = 10


def outside_ns(recording: Recording, window: tuple[int, int]) -> int:
    """How long the recording goes on outside of the window, host calls included."""
    tables = (recording.operations, recording.calls, recording.ranges, recording.operators)
    starts = [int(table.start.min()) for table in tables if len(table)]
    ends = [int(table.end.max()) for table in tables if len(table)]
    return max(0, window[0] - min(starts)) + max(0, max(ends) - window[1])


def top(
    recording: Recording, window: tuple[int, int], count: int = MOST
) -> dict[str, list[dict[str, Any]]]:
    """The kernels, ranges and operators that took most time in the window, largest first."""
    work = recording.operations
    kernels = np.isin(work.kind, (KERNEL, GRAPH))
    return {
        "kernels": _largest(recording, work.name, work.start, work.end, kernels, window, count),
        "ranges": _of_table(recording, recording.ranges, window, count),
        "operators": _of_table(recording, recording.operators, window, count),
    }


def _of_table(recording: Recording, table: Ranges, window: tuple[int, int], count: int) -> list:
    every = np.ones(len(table), dtype=bool)
    return _largest(recording, table.name, table.start, table.end, every, window, count)


def _largest(
    recording: Recording,
    names: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    chosen: np.ndarray,
    window: tuple[int, int],
    count: int,
) -> list[dict[str, Any]]:
    inside = np.minimum(ends, window[1]) - np.maximum(starts, window[0])
    own = np.flatnonzero(chosen & (inside > 0))
    if not len(own):
        return []
    codes, place = np.unique(names[own], return_inverse=True)
    total = np.zeros(len(codes), dtype=np.int64)
    np.add.at(total, place, inside[own])
    times = np.bincount(place)
    order = np.argsort(-total, kind="stable")[:count]
    length = window[1] - window[0]
    return [
        {
            "name": recording.names[int(codes[row])],
            "total_ns": int(total[row]),
            "count": int(times[row]),
            "window_ratio": int(total[row]) / length,
        }
        for row in order.tolist()
    ]


def short(name: str) -> str:
    """A kernel's name without return type, template arguments, parameters and namespace.

    Nsight Compute writes the signature where Nsight Systems has both; a trace has the signature.
    """
    name = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    for bracket in "<(":
        name = name.partition(bracket)[0] or name
    return name.rpartition("::")[2].strip()


def alone_ns(recording: Recording, window: tuple[int, int]) -> dict[str, int]:
    """By short name, for how long kernels of a name ran in the window and no other kernel did."""
    work = recording.operations
    own = np.flatnonzero((work.kind == KERNEL) & (work.start < window[1]) & (work.end > window[0]))
    code = work.name[own].astype(np.int64)
    times = np.concatenate(
        [np.maximum(work.start[own], window[0]), np.minimum(work.end[own], window[1])]
    )
    order = np.argsort(times, kind="stable")
    one = np.ones(len(own), dtype=np.int64)
    # Where one kernel runs, the running sum of codes is its own.
    running = np.cumsum(np.concatenate([one, -one])[order])[:-1]
    codes = np.cumsum(np.concatenate([code, -code])[order])[:-1]
    length = np.diff(times[order])
    out: dict[str, int] = {}
    for single in np.unique(code).tolist():
        alone = int(length[(running == 1) & (codes == single)].sum())
        name = short(recording.names[single])
        out[name] = out.get(name, 0) + alone
    return out
