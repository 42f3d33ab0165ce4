from __future__ import annotations

CAUGHT_BY = "test_the_larger_is_found"
SAYS = "the larger of the two"


def first_task(first: int, second: int) -> int:
    return min(first, second)
