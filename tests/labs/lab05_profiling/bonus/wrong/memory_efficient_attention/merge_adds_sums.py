"""Adds the sums as if both were taken against the same largest score."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_two_blocks_of_keys"
SAYS = "against different largest scores"


def merge_partials(first: Partial, second: Partial) -> Partial:
    for left, right, dimensions in zip(first, second, (1, 1, 2), strict=True):
        if left.shape != right.shape or left.ndim != dimensions:
            raise ValueError(f"two partials of shapes {left.shape} and {right.shape} do not fit")
    if not first[0].shape == first[1].shape == first[2].shape[:1]:
        raise ValueError(f"largest {first[0].shape} and sums {first[2].shape}: different rows")
    largest = np.maximum(first[0], second[0])
    total = first[1] + second[1]
    mix = first[2] + second[2]
    return largest, total, mix
