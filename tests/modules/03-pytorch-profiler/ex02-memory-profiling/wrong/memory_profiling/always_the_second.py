from __future__ import annotations

CAUGHT_BY = "test_the_order_does_not_matter"
SAYS = "the order is no clue"


def first_task(first: int, second: int) -> int:
    return second
