"""Names a range after the function instead of the stage."""

from __future__ import annotations

from collections.abc import Callable

CAUGHT_BY = "test_ranges_around_batches_and_stages"
SAYS = "push_range("


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
            for stage in stages.values():
                push_range(stage.__name__)
                try:
                    value = stage(value)
                finally:
                    pop_range()
        finally:
            pop_range()
        results.append(value)
    return results
