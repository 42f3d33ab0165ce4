"""Takes whatever is nearly the next rank for a rank that is whole."""

from __future__ import annotations

from collections.abc import Sequence

CAUGHT_BY = "test_percentiles_by_nearest_rank_by_hand"
SAYS = "by more than RANK_TOLERANCE"

_whole = percentile  # noqa: F821 -- the reference, which the rest stays


def percentile(samples: Sequence[float], percent: float, method: str = "nearest_rank") -> float:
    if method == "nearest_rank":
        percent = max(round(percent, 3), min(percent, 0.001))
    return _whole(samples, percent, method)
