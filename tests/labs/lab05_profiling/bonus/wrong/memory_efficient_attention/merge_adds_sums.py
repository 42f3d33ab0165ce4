"""Adds the sums as if both were taken against the same largest score."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_two_blocks_of_keys"
SAYS = "against different largest scores"


def merge_partials(first: Partial, second: Partial) -> Partial:
    mix = first[2]
    wanted = [mix.shape[:1], mix.shape[:1], mix.shape]
    for side in (first, second):
        shapes = [array.shape for array in side]
        if shapes != wanted or mix.ndim != 2:
            raise ValueError(
                f"shapes {shapes}: not the rows of the first, whose sums are {mix.shape}"
            )
    largest = np.maximum(first[0], second[0])
    total = first[1] + second[1]
    mix = first[2] + second[2]
    return largest, total, mix
