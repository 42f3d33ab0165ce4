"""Gives every stage the batch instead of the result before it."""

from __future__ import annotations

from collections.abc import Callable

CAUGHT_BY = "test_ranges_around_batches_and_stages"
SAYS = "Ranges nest"


def annotate_pipeline(
    batches: list,
    stages: dict[str, Callable],
    push_range: Callable[[str], object],
    pop_range: Callable[[], object],
) -> list:
    results = []
    for i, batch in enumerate(batches):
        push_range(f"batch {i}")
        try:
            for name, stage in stages.items():
                push_range(name)
                try:
                    value = stage(batch)
                finally:
                    pop_range()
        finally:
            pop_range()
        results.append(value)
    return results
