"""Subtracts minus infinity from itself where a row has no key."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_rows_without_keys"
SAYS = "invalid value"


def merge_partials(first: Partial, second: Partial) -> Partial:
    for left, right, dimensions in zip(first, second, (1, 1, 2), strict=True):
        if left.shape != right.shape or left.ndim != dimensions:
            raise ValueError(f"two partials of shapes {left.shape} and {right.shape} do not fit")
    if not first[0].shape == first[1].shape == first[2].shape[:1]:
        raise ValueError(f"largest {first[0].shape} and sums {first[2].shape}: different rows")
    largest = np.maximum(first[0], second[0])
    finite = largest
    old, new = np.exp(first[0] - finite), np.exp(second[0] - finite)
    total = old * first[1] + new * second[1]
    mix = old[:, None] * first[2] + new[:, None] * second[2]
    return largest, total, mix
