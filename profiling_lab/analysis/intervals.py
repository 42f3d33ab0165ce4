"""Sets of time intervals, as arrays: union, intersection, difference, gaps.

An interval is half open, from its start up to its end, in ns. One that does not end after it starts
covers no time. What `union`, `intersection`, `difference` and `gaps` give is disjoint and in order:
intervals that overlap or touch are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

_INT64 = np.iinfo(np.int64)


class Intervals(NamedTuple):
    """Starts and ends in ns: two arrays of the same length, in any order; int64, or float of simulated time."""

    starts_ns: np.ndarray
    ends_ns: np.ndarray

    def pairs(self) -> list[tuple[int, int]]:
        """(start, end) of each, in ns."""
        return list(zip(self.starts_ns.tolist(), self.ends_ns.tolist(), strict=True))


def of(pairs: Iterable[tuple[int, int]]) -> Intervals:
    """Intervals from pairs of start and end, in ns."""
    rows = list(pairs)
    starts = np.array([start for start, _ in rows], dtype=np.int64)
    return Intervals(starts, np.array([end for _, end in rows], dtype=np.int64))


def clip(spans: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """The parts of each interval inside the window; one that has none is left out."""
    starts, ends = np.maximum(spans[0], start_ns), np.minimum(spans[1], end_ns)
    inside = starts < ends
    return Intervals(starts[inside], ends[inside])


def union(spans: Intervals, join_ns: float = 0) -> Intervals:
    """The time that at least one covers. join_ns: gaps up to this length are covered as well."""
    some = spans[0] < spans[1]
    starts, ends = spans[0][some], spans[1][some]
    order = np.argsort(starts)
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    apart = starts[1:] - reached[:-1] > join_ns
    first, last = np.ones(len(starts), bool), np.ones(len(starts), bool)
    first[1:], last[:-1] = apart, apart
    return Intervals(starts[first], reached[last])


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """The time that both cover."""
    one, other = union(one), union(other)
    first = np.searchsorted(other.ends_ns, one.starts_ns, side="right")
    met = np.searchsorted(other.starts_ns, one.ends_ns, side="left") - first
    mine = np.repeat(np.arange(len(met)), met)
    before = np.repeat(np.cumsum(met) - met, met)
    theirs = np.repeat(first, met) + np.arange(len(mine)) - before
    return Intervals(
        np.maximum(one.starts_ns[mine], other.starts_ns[theirs]),
        np.minimum(one.ends_ns[mine], other.ends_ns[theirs]),
    )


def difference(one: Intervals, other: Intervals) -> Intervals:
    """The time that the first covers and the second does not."""
    starts, ends = union(other)
    outside = Intervals(np.append(_INT64.min, ends), np.append(starts, _INT64.max))
    return intersection(one, outside)


def gaps(spans: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """The stretches of the window that none covers, each as long as possible."""
    return difference(of([(start_ns, end_ns)]), spans)


def total_ns(spans: Intervals) -> int:
    """How long the time is that at least one covers."""
    starts, ends = union(spans)
    return int((ends - starts).sum())


def covered(spans: Intervals, asked: Intervals) -> np.ndarray:
    """How much of each asked interval disjoint, ordered spans cover, in ns."""
    if not len(spans.starts_ns):
        return np.zeros(len(asked.starts_ns), dtype=np.int64)
    before = np.append(0, np.cumsum(spans.ends_ns - spans.starts_ns))

    def until(times: np.ndarray) -> np.ndarray:
        place = np.searchsorted(spans.starts_ns, times, side="right")
        inside = np.minimum(times, spans.ends_ns[np.maximum(place - 1, 0)])
        part = np.where(place > 0, inside - spans.starts_ns[np.maximum(place - 1, 0)], 0)
        return before[np.maximum(place - 1, 0)] + part

    return until(asked.ends_ns) - until(asked.starts_ns)


def together(*parts: Intervals) -> Intervals:
    """The intervals of all parts, one after the other: neither in order nor disjoint."""
    return Intervals(*(np.concatenate(column) for column in zip(*parts, strict=True)))
