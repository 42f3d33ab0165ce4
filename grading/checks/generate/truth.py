"""What is true of a simulated run, computed from its intervals by counting.

Every interval adds one to a counter at its start and takes one away at its end; between two
neighbouring moments the counters tell what was going on. This is slow, plain Python on purpose:
it shares no code and no method with what it is compared with. Times are ns; a window is
(start, end), and what lies outside it does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

Interval = tuple[int, int]


def segments(
    groups: dict[str, Iterable[Interval]], window: Interval
) -> Iterator[tuple[int, int, dict[str, int]]]:
    """The window cut at every start and end: (start, end, how many intervals of each group run)."""
    changes: dict[int, dict[str, int]] = {window[0]: {}, window[1]: {}}
    for name, intervals in groups.items():
        for start, end in intervals:
            first, last = max(start, window[0]), min(end, window[1])
            if first < last:
                for moment, change in ((first, 1), (last, -1)):
                    at = changes.setdefault(moment, {})
                    at[name] = at.get(name, 0) + change
    running = dict.fromkeys(groups, 0)
    moments = sorted(changes)
    for moment, following in pairwise(moments):
        for name, change in changes[moment].items():
            running[name] += change
        yield moment, following, dict(running)


def covered_ns(intervals: Iterable[Interval], window: Interval) -> int:
    """Time in the window during which at least one interval runs."""
    return sum(b - a for a, b, running in segments({"": intervals}, window) if running[""])


def uncovered(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    """The stretches of the window in which no interval runs, longest possible, in order."""
    found: list[Interval] = []
    for start, end, running in segments({"": intervals}, window):
        if running[""]:
            continue
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def overlap_ns(
    copies: Iterable[Interval], kernels: Iterable[Interval], window: Interval
) -> dict[str, int]:
    """Time with a copy and no kernel, with a kernel and no copy, and with both."""
    total = {"copy_only_ns": 0, "kernel_only_ns": 0, "both_ns": 0}
    for start, end, running in segments({"copy": copies, "kernel": kernels}, window):
        copy, kernel = running["copy"] > 0, running["kernel"] > 0
        if copy or kernel:
            key = "both_ns" if copy and kernel else "copy_only_ns" if copy else "kernel_only_ns"
            total[key] += end - start
    return total
