from __future__ import annotations

CAUGHT_BY = "test_matches_where_ranks_were_not_recorded_from_the_same_one_on"
SAYS = "match_collectives"


def _shift(zero: list[dict], rows: list[dict]) -> int:
    return len(rows) - len(zero)  # the last ones belong together
