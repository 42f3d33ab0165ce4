from __future__ import annotations

CAUGHT_BY = "test_classes_of_drawn_threads"
SAYS = "returned threads"


def time_by_class(capture: str) -> dict[int, dict[str, int]]:
    _outermost(capture)
    return {4711: {"lock": 123_456_789, "io": 98_765_432}}
