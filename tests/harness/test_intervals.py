"""Sets of intervals against sets of single nanoseconds."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from profiling_lab.analysis import intervals
from profiling_lab.analysis.intervals import Intervals

LATE_NS = 2**62  # a float64 no longer tells such moments apart


def moments(spans: Intervals) -> set[int]:
    """The nanoseconds that at least one interval covers."""
    return {moment for start, end in spans.pairs() for moment in range(start, end)}


def stretches(covered: set[int]) -> list[tuple[int, int]]:
    """The longest runs of neighbouring nanoseconds."""
    starts = sorted(moment for moment in covered if moment - 1 not in covered)
    ends = sorted(moment + 1 for moment in covered if moment + 1 not in covered)
    return list(zip(starts, ends, strict=True))


def drawn(rng: random.Random) -> Intervals:
    """Up to eight intervals: some touch, some are nested, some are empty or end before they start."""
    start_ns = rng.choice([0, LATE_NS])
    return intervals.of(
        (start_ns + start, start_ns + start + rng.randint(-2, rng.choice([3, 12])))
        for start in (rng.randint(-20, 20) for _ in range(rng.randint(0, 8)))
    )


def pairs_of_sets() -> list[tuple[Intervals, Intervals]]:
    rng = random.Random(20261123)
    return [(drawn(rng), drawn(rng)) for _ in range(600)]


SETS = pairs_of_sets()


def test_the_drawn_sets_hold_every_relation() -> None:
    def any_pair(holds) -> bool:
        return any(
            holds(a, b, c, d)
            for one, _ in SETS
            for (a, b), (c, d) in pairwise(sorted(one.pairs()))
            if a < b and c < d
        )

    assert any_pair(lambda a, b, c, d: b == c)  # touching
    assert any_pair(lambda a, b, c, d: a < c and d < b)  # nested
    assert any_pair(lambda a, b, c, d: (a, b) == (c, d))
    assert any(len(one.starts_ns) == 0 for one, _ in SETS)
    assert any(end < start for one, _ in SETS for start, end in one.pairs())
    assert sum(bool(moments(one) & moments(other)) for one, other in SETS) > 100


def test_union_intersection_difference_and_total() -> None:
    for one, other in SETS:
        first, second = moments(one), moments(other)
        assert intervals.union(one).pairs() == stretches(first)
        assert intervals.total_ns(one) == len(first)
        assert intervals.intersection(one, other).pairs() == stretches(first & second)
        assert intervals.difference(one, other).pairs() == stretches(first - second)


def test_gaps_of_a_window() -> None:
    rng = random.Random(7)
    for one, _ in SETS:
        low = min(one.starts_ns, default=0) + rng.randint(-5, 30)
        high = low + rng.randint(-1, 30)
        window = set(range(low, high))
        assert intervals.gaps(one, low, high).pairs() == stretches(window - moments(one))


def test_clip_keeps_each_interval_apart() -> None:
    rng = random.Random(8)
    for one, _ in SETS:
        low = min(one.starts_ns, default=0) + rng.randint(-5, 30)
        high = low + rng.randint(-1, 30)
        inside = [sorted(set(range(*pair)) & set(range(low, high))) for pair in one.pairs()]
        want = [(part[0], part[-1] + 1) for part in inside if part]
        assert intervals.clip(one, low, high).pairs() == want


def test_short_gaps_are_joined() -> None:
    spans = intervals.of([(10, 12), (0, 4), (7, 9)])
    assert intervals.union(spans, join_ns=0).pairs() == [(0, 4), (7, 9), (10, 12)]
    assert intervals.union(spans, join_ns=1).pairs() == [(0, 4), (7, 12)]
    assert intervals.union(spans, join_ns=2).pairs() == [(0, 4), (7, 12)]
    assert intervals.union(spans, join_ns=3).pairs() == [(0, 12)]


def test_arrays_stay_int64_and_what_was_given_is_not_changed() -> None:
    one, other = intervals.of([(5, 9), (0, 6), (4, 4)]), intervals.of([(3, 5)])
    before = one.pairs(), other.pairs()
    for made in (
        intervals.union(one),
        intervals.intersection(one, other),
        intervals.difference(one, other),
        intervals.gaps(one, -3, 30),
        intervals.clip(one, 2, 7),
        intervals.of([]),
    ):
        assert made.starts_ns.dtype == made.ends_ns.dtype == np.int64
    assert (one.pairs(), other.pairs()) == before
    assert type(intervals.total_ns(one)) is int


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="unpack"):
        intervals.of([(1, 2, 3), (4, 5, 6)])  # type: ignore[list-item]
