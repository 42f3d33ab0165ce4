"""Leaves out results that are empty."""

from __future__ import annotations

from collections.abc import Callable

CAUGHT_BY = "test_nothing_and_empty_values_go_through"
SAYS = "Values that are empty or None are values"


def annotate_pipeline(
    batches: list,
    stages: dict[str, Callable],
    push_range: Callable[[str], object],
    pop_range: Callable[[], object],
) -> list:
    results = []
    for i, value in enumerate(batches):
        push_range(f"batch {i}")
        try:
            for name, stage in stages.items():
                push_range(name)
                try:
                    value = stage(value)
                finally:
                    pop_range()
        finally:
            pop_range()
        if value:
            results.append(value)
    return results
