"""Where no rank bounds the percentile it takes the extreme samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

CAUGHT_BY = "test_intervals_by_hand"
SAYS = "expected None"


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
    low, high = float(ordered[0]), float(ordered[-1])
    at_most = np.cumsum(_binomial(len(ordered), percent / 100))
    for rank, sample in enumerate(ordered, 1):
        if at_most[rank - 1] <= tail:
            low = float(sample)
        if at_most[rank - 1] >= 1 - tail:
            high = float(sample)
            break
    return low, high
