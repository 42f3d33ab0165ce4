"""Lets copies vanish altogether, as if overlap made them shorter."""

from __future__ import annotations

from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_savings_of_copies_and_allocation"
SAYS = "the copies of the busiest direction still take their time"


def _least_end(operations: list[Operation]) -> int:
    return 0
