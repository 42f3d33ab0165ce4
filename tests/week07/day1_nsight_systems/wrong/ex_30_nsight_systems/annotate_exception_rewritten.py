"""Raises another exception of the same type."""

from __future__ import annotations

from collections.abc import Callable

CAUGHT_BY = "test_ranges_are_closed_when_a_stage_raises"
SAYS = "its message must hold these words"


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
                except Exception as error:
                    raise type(error)(f"{name}: {error}") from error
                finally:
                    pop_range()
        finally:
            pop_range()
        results.append(value)
    return results
