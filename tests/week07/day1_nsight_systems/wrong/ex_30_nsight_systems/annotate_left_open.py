"""Leaves ranges open when a stage raises."""

from __future__ import annotations

from collections.abc import Callable

CAUGHT_BY = "test_ranges_are_closed_when_a_stage_raises"
SAYS = "were never closed"


def annotate_pipeline(
    batches: list,
    stages: dict[str, Callable],
    push_range: Callable[[str], object],
    pop_range: Callable[[], object],
) -> list:
    results = []
    for i, value in enumerate(batches):
        push_range(f"batch {i}")
        for name, stage in stages.items():
            push_range(name)
            value = stage(value)
            pop_range()
        pop_range()
        results.append(value)
    return results
