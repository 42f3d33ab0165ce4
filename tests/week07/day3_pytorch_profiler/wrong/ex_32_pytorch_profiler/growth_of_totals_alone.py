"""Believes totals of longer stretches, which rise by chance where batches vary."""

from __future__ import annotations

CAUGHT_BY = "test_growth_of_longer_stretches"
SAYS = "rise by chance"


def _growth(ends: list[int], staying: list[int] | None) -> tuple[int, int]:
    growth, found = 0, 1
    lengths = range(1, (1 if staying is None else max(1, (len(ends) - 1) // 2)) + 1)
    for length in lengths:
        rise = min(b - a for a, b in zip(ends, ends[length:], strict=False))
        if rise // length > growth:
            growth, found = rise // length, length
    return growth, found
