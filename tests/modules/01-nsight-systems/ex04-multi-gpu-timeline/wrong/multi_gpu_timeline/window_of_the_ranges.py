from __future__ import annotations

CAUGHT_BY = "test_time_where_collectives_are_left_out"
SAYS = "lies outside of it"


def _window(capture: str) -> tuple[int, int]:
    ranks = find_ranks(capture).values()
    return min(rank["start_ns"] for rank in ranks), max(rank["end_ns"] for rank in ranks)
