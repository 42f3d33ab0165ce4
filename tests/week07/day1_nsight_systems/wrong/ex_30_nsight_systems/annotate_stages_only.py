"""Forgets the range around each batch."""

from __future__ import annotations

from collections.abc import Callable

CAUGHT_BY = "test_ranges_around_batches_and_stages"
SAYS = "expected push_range('batch 0')"


def annotate_pipeline(
    batches: list,
    stages: dict[str, Callable],
    push_range: Callable[[str], object],
    pop_range: Callable[[], object],
) -> list:
    results = []
    for value in batches:
        for name, stage in stages.items():
            push_range(name)
            try:
                value = stage(value)
            finally:
                pop_range()
        results.append(value)
    return results
