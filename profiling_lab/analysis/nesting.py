"""Named stretches of threads as trees: what each spent itself, and what devices did for what it launched.

A call lies in a stretch if it begins in it, on its thread; what the call launched counts to the stretch wherever
and whenever it ran. Own time is a stretch's time without that of the stretches inside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiling_lab.analysis.columns import Ranges, Recording


@dataclass
class Nested:
    """Per row of a table: ns, within a window.

    host, host_own: of the thread. device, device_own: of what was launched inside, and inside no narrower one.
    parent: the row that it lies in, -1 for none. outermost: no row of the same name is around it.
    """

    host: np.ndarray
    host_own: np.ndarray
    device: np.ndarray
    device_own: np.ndarray
    parent: np.ndarray
    outermost: np.ndarray


def read(recording: Recording, table: Ranges, window: tuple[int, int]) -> Nested:
    """What each row of ranges, operators or functions took, of a window."""
    size = len(table)
    start, end = np.maximum(table.start, window[0]), np.minimum(table.end, window[1])
    host = np.maximum(end - start, 0)
    parent, outermost = _parents(table)
    inside = np.flatnonzero(parent >= 0)
    children = np.zeros(size, dtype=np.int64)
    np.add.at(children, parent[inside], host[inside])
    device = _launched_inside(recording, table, window)
    below = np.zeros(size, dtype=np.int64)
    np.add.at(below, parent[inside], device[inside])
    return Nested(
        host,
        np.maximum(host - children, 0),
        device,
        np.maximum(device - below, 0),
        parent,
        outermost,
    )


def _parents(table: Ranges) -> tuple[np.ndarray, np.ndarray]:
    """Per row the innermost row around it, and whether none around it has its name."""
    order = np.lexsort((-table.end, table.start, table.thread)).tolist()
    starts, ends = table.start.tolist(), table.end.tolist()
    threads, names = table.thread.tolist(), table.name.tolist()
    parent, outermost = [-1] * len(starts), [True] * len(starts)
    around: list[int] = []
    thread = None
    for row in order:
        if threads[row] != thread:
            thread, around = threads[row], []
        while around and ends[around[-1]] <= starts[row]:
            around.pop()
        # A stretch that ends after the one that it begins in overlaps it and lies in none.
        while around and ends[around[-1]] < ends[row]:
            around.pop()
        if around:
            parent[row] = around[-1]
            outermost[row] = all(names[other] != names[row] for other in around)
        around.append(row)
    return np.array(parent, dtype=np.int64), np.array(outermost, dtype=bool)


def _launched_inside(recording: Recording, table: Ranges, window: tuple[int, int]) -> np.ndarray:
    """Per row, the time on devices of what calls launched that begin inside it."""
    calls, work = recording.calls, recording.operations
    ns = np.maximum(np.minimum(work.end, window[1]) - np.maximum(work.start, window[0]), 0)
    # One number for a process and correlation; a call may launch several operations.
    keys = work.process.astype(np.int64) << 40 | (work.correlation & (1 << 40) - 1)
    known, place = np.unique(keys, return_inverse=True)
    total = np.zeros(len(known), dtype=np.int64)
    np.add.at(total, place, ns)
    wanted = calls.process.astype(np.int64) << 40 | (calls.correlation & (1 << 40) - 1)
    at = np.minimum(np.searchsorted(known, wanted), max(0, len(known) - 1))
    found = (known[at] == wanted) & (calls.correlation > 0)
    # A call inside another has its correlation at times: the outer one, which comes first, launched it.
    rows = np.flatnonzero(found)
    _, first = np.unique(wanted[rows], return_index=True)
    rows = rows[np.sort(first)]
    launched = total[at[rows]]
    out = np.zeros(len(table), dtype=np.int64)
    for thread in np.unique(table.thread).tolist():
        own = np.flatnonzero(table.thread == thread)
        mine = calls.thread[rows] == thread
        times, amounts = calls.start[rows[mine]], launched[mine]
        order = np.argsort(times, kind="stable")
        sums = np.append(0, np.cumsum(amounts[order]))
        begin = np.searchsorted(times[order], table.start[own], side="left")
        until = np.searchsorted(times[order], table.end[own], side="left")
        out[own] = sums[np.maximum(until, begin)] - sums[begin]
    return out
