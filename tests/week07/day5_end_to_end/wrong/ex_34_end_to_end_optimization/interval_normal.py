"""Takes the normal distribution for the binomial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

CAUGHT_BY = "test_intervals_by_hand"
SAYS = "All six on one side"


def percentile_interval(
    samples: Sequence[float], percent: float, confidence: float = 0.95
) -> tuple[float | None, float | None]:
    if not 0 < percent < 100 or not 0 < confidence < 1:
        raise ValueError(
            "percent must be between 0 and 100, and confidence between 0 and 1, "
            f"got {percent} and {confidence}"
        )
    ordered = sorted(samples)
    if not ordered or any(math.isnan(sample) for sample in ordered):
        raise ValueError("samples must be numbers, at least one, and none of them NaN")
    tail = (1 - confidence) / 2
    n, p = len(ordered), percent / 100
    reach = NormalDist().inv_cdf(1 - tail) * math.sqrt(n * p * (1 - p))
    low, high = math.floor(n * p - reach), math.ceil(n * p + reach) + 1
    return (
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high - 1]) if high <= n else None,
    )
