"""Subtracts minus infinity from itself where a row has no key."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_rows_without_keys"
SAYS = "minus infinity minus itself"


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
    finite = largest
    old, new = np.exp(first[0] - finite), np.exp(second[0] - finite)
    total = old * first[1] + new * second[1]
    mix = old[:, None] * first[2] + new[:, None] * second[2]
    return largest, total, mix
