"""Takes the largest size within the limit."""

from __future__ import annotations

CAUGHT_BY = "test_best_batch_by_hand_and_bad_input"
SAYS = "larger is not always better"


def _rank(point: dict) -> tuple[float, int]:
    return point["batch"], 0
