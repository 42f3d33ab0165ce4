"""Asks what every single step adds, and misses what leaks in every second."""

from __future__ import annotations

CAUGHT_BY = "test_growth_of_longer_stretches"
SAYS = "what leaks in every second step"


def _growth(ends: list[int], staying: list[int] | None) -> tuple[int, int]:
    return max(0, min(b - a for a, b in zip(ends, ends[1:], strict=False))), 1
