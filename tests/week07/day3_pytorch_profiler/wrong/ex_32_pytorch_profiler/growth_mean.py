"""Takes the mean growth."""

from __future__ import annotations

CAUGHT_BY = "test_growth_of_drawn_steps"
SAYS = "That is the mean"


def _growth(ends: list[int], staying: list[int] | None) -> tuple[int, int]:
    return max(0, (ends[-1] - ends[0]) // (len(ends) - 1)), 1
