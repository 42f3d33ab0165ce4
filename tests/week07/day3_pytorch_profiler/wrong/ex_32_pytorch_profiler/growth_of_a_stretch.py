"""Gives the growth of a stretch as that of a step."""

from __future__ import annotations

CAUGHT_BY = "test_growth_of_longer_stretches"
SAYS = "expected"


def _growth(ends: list[int], staying: list[int] | None) -> tuple[int, int]:
    growth, found = 0, 1
    lengths = range(1, (1 if staying is None else max(1, (len(ends) - 1) // 2)) + 1)
    for length in lengths:
        rise = min(b - a for a, b in zip(ends, ends[length:], strict=False))
        if staying is not None and length > 1:
            kept = min(b - a for a, b in zip(staying, staying[length:], strict=False))
            rise = min(rise, kept)
        if rise // length > growth:
            growth, found = rise, length
    return growth, found
