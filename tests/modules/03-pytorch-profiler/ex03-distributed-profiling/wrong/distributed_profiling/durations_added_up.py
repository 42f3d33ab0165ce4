from __future__ import annotations

CAUGHT_BY = "test_overlap_of_drawn_traces"
SAYS = "each counted once"


def _length(spans: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)
