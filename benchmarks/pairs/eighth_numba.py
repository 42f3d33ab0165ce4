"""The eighth look: a pair on Numba."""

from __future__ import annotations

import numpy as np
from harness import Loop

if not hasattr(np, "row_stack"):  # Numba asks for it
    np.row_stack = np.vstack
from numba import cuda


@cuda.jit
def swing(height, before, after):
    """One moment of strings that are held at both ends; a block is a string."""
    string, place = cuda.blockIdx.x, cuda.threadIdx.x
    if 0 < place < height.shape[1] - 1:
        bend = height[string, place - 1] + height[string, place + 1]
        bend -= np.float32(2.0) * height[string, place]
        again = np.float32(2.0) * height[string, place] - before[string, place]
        after[string, place] = again + np.float32(0.2) * bend


@cuda.jit
def swing_on(height, before, after, moments):
    """Many moments of the same strings; each block waits for its own threads between them."""
    string, place = cuda.blockIdx.x, cuda.threadIdx.x
    for _ in range(moments):
        if 0 < place < height.shape[1] - 1:
            bend = height[string, place - 1] + height[string, place + 1]
            bend -= np.float32(2.0) * height[string, place]
            again = np.float32(2.0) * height[string, place] - before[string, place]
            after[string, place] = again + np.float32(0.2) * bend
        cuda.syncthreads()
        before, height, after = height, after, before


def strings_stepped_numba(fixed: bool) -> Loop:
    """A step is 99 moments: a kernel for each, or one that goes through all of them."""
    count, places, moments = 128, 512, 99
    start = np.sin(np.linspace(0, np.pi, places, dtype=np.float32))
    arrays = [cuda.to_device(np.tile(start, (count, 1))) for _ in range(3)]

    def loop(steps: int):
        height, before, after = arrays
        for _ in range(steps):
            if fixed:
                swing_on[count, places](height, before, after, moments)
            else:
                for _ in range(moments):
                    swing[count, places](height, before, after)
                    before, height, after = height, after, before
            yield

    return loop
