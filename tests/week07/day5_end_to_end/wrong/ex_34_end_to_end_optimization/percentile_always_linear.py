"""Uses the default of numpy.percentile for both methods."""

from __future__ import annotations

import math
from collections.abc import Sequence

CAUGHT_BY = "test_percentiles_by_nearest_rank_of_drawn_samples"
SAYS = "That is the other method"


def percentile(samples: Sequence[float], percent: float, method: str = "nearest_rank") -> float:
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known: {', '.join(METHODS)}")
    if not 0 < percent <= 100:
        raise ValueError(f"percent must be above 0 and at most 100, got {percent}")
    ordered = sorted(samples)
    if not ordered or any(math.isnan(sample) for sample in ordered):
        raise ValueError("samples must be numbers, at least one, and none of them NaN")
    n = len(ordered)
    place = (n - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, n - 1)
    return float(ordered[below] + (place - below) * (ordered[above] - ordered[below]))
