"""Writes the largest scores into the first block's own array."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_two_blocks_of_keys"
SAYS = "changed what it was given"


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
    finite = np.where(np.isneginf(largest), np.zeros_like(largest), largest)
    old, new = np.exp(first[0] - finite), np.exp(second[0] - finite)
    total = old * first[1] + new * second[1]
    mix = old[:, None] * first[2] + new[:, None] * second[2]
    first[0][:] = largest
    return first[0], total, mix
