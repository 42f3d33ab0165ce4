from __future__ import annotations

CAUGHT_BY = "test_matches_where_ranks_were_not_recorded_from_the_same_one_on"
SAYS = "one is missing in between"


def _shift(zero: list[dict], rows: list[dict]) -> int:
    votes = {0: 0}
    for place, one in enumerate(zero):
        for other, row in enumerate(rows):
            if max(one["start_ns"], row["start_ns"]) < min(one["end_ns"], row["end_ns"]):
                votes[other - place] = votes.get(other - place, 0) + 1  # however short
    return max(votes, key=lambda shift: (votes[shift], -abs(shift)))
