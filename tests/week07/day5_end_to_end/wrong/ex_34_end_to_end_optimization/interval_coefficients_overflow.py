"""Multiplies binomial coefficients as floats."""

from __future__ import annotations

import math

CAUGHT_BY = "test_intervals_of_drawn_samples"
SAYS = "OverflowError"


def _binomial(n: int, p: float) -> list[float]:
    # In logarithms: the binomial coefficients of a thousand samples do not fit into a float.
    return [float(math.comb(n, k)) * p**k * (1 - p) ** (n - k) for k in range(n)]
