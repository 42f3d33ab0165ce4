"""Once is not always: what a recording holds once is no cost of a step.

A length recurs if another of its kind is at least half as long. What lasts longer than the longest that recurs
happened once, and by that much it is set-up: no step of a loop has it again. What is of a kind, its user says: a
thread's own code, its calls of a kind, allocations before the same kernel, exposed collectives of a rank.
"""

from __future__ import annotations

import numpy as np

from profiling_lab.analysis import columns, intervals
from profiling_lab.analysis.columns import Recording
from profiling_lab.analysis.intervals import Intervals

LEAST_ALIKE = 4  # copies of one direction and size: with fewer, first and last are as good as all


def beyond_recurring(length: np.ndarray, group: np.ndarray) -> np.ndarray:
    """By how much each of these lasts longer than anything that recurs in its group, in ns.

    A length recurs if another of its group is at least half as long. What is longer than the longest of those is an
    event of its own, and its excess happened once.
    """
    out = np.zeros(len(length), dtype=np.int64)
    if not len(length):
        return out
    by_length = np.lexsort((-length, group))
    value, own = length[by_length], group[by_length]
    last = np.append(own[1:] != own[:-1], True)
    peer = ~last & (2 * np.append(value[1:], 0) >= value)
    number = np.cumsum(np.append(False, last[:-1]))
    usual = np.zeros(number[-1] + 1, dtype=np.int64)
    np.maximum.at(usual, number[peer], value[peer])
    out[by_length] = np.maximum(0, value - usual[number])
    return out


def of_stretches(spans: Intervals, stride: int, group: np.ndarray) -> Intervals:
    """Of disjoint stretches, what does not recur on the threads of a group: where each begins.

    spans: thread and time in one number, thread * stride + time. group: by thread.
    """
    length = spans.ends_ns - spans.starts_ns
    beyond = beyond_recurring(length, group[spans.starts_ns // stride])
    some = beyond > 0
    return Intervals(spans.starts_ns[some], spans.starts_ns[some] + beyond[some])


def of_collectives(collectives: Intervals, alone: Intervals) -> Intervals:
    """Of each collective's exposed time, what no other one takes again: where it begins."""
    exposed = intervals.covered(alone, collectives)
    beyond = beyond_recurring(exposed, np.zeros(len(exposed), dtype=np.int64))
    some = np.flatnonzero(beyond)
    return Intervals(collectives.starts_ns[some], collectives.starts_ns[some] + beyond[some])


def fills_and_drains(
    work: columns.DeviceOperations, chosen: np.ndarray, alone: Intervals
) -> Intervals:
    """The first and the last copy of many alike, if these are hidden for the most part."""
    rows = np.flatnonzero(chosen)
    if not len(rows) or not len(alone.starts_ns):
        return intervals.of(())
    exposed = intervals.covered(alone, Intervals(work.start[rows], work.end[rows]))
    group, _ = columns.number_rows(work.name[rows].astype(np.int64), work.bytes[rows])
    order = np.lexsort((exposed, group))
    ordered = group[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    count = np.diff(np.append(first, len(ordered)))
    usual = exposed[order[first + (count - 1) // 2]]
    _, begins = np.unique(group, return_index=True)
    _, from_end = np.unique(group[::-1], return_index=True)
    once = np.zeros(len(rows), dtype=bool)
    for place in (begins, len(rows) - 1 - from_end):
        once[place] |= (count >= LEAST_ALIKE) & (2 * usual < exposed[place])
    return Intervals(work.start[rows[once]], work.end[rows[once]])


def brought(
    recording: Recording, chosen: np.ndarray, kernels: np.ndarray, alone: Intervals
) -> Intervals:
    """What is brought to a device once: copies before the first kernel that runs again.

    Copies between two kernels count together; they are brought once if no later ones take half as long.
    """
    work = recording.operations
    rows, ran = np.flatnonzero(chosen), np.flatnonzero(kernels)
    times = np.bincount(work.name[ran], minlength=len(recording.names))
    again = work.start[ran[times[work.name[ran]] > 1]]
    if not len(rows) or not len(again):
        return intervals.of(())
    exposed = intervals.covered(alone, Intervals(work.start[rows], work.end[rows]))
    place = np.searchsorted(np.sort(work.start[ran]), work.start[rows])
    place[work.end[rows] <= again.min()] = 0
    burst, keys = columns.number_rows(work.name[rows].astype(np.int64), place)
    total = np.bincount(burst, exposed, len(keys)).astype(np.int64)
    beyond = beyond_recurring(total, np.array([name for name, _ in keys]))
    once = (beyond > 0)[burst] & (work.end[rows] <= again.min())
    return Intervals(work.start[rows[once]], work.end[rows[once]])
