"""A pair on Numba."""

from __future__ import annotations

import numpy as np
from harness import Loop

if not hasattr(np, "row_stack"):  # Numba asks for it
    np.row_stack = np.vstack
from numba import cuda


@cuda.jit
def spin(out, rounds):
    place = cuda.grid(1)
    value = np.float32(cuda.threadIdx.x)
    for _ in range(rounds):
        value = value * np.float32(0.999) + np.float32(0.5)
    out[place] = value


@cuda.jit
def count_up(total):
    total[0] += 1


def blocking_streams_numba(fixed: bool) -> Loop:
    streams = [cuda.stream() for _ in range(4)]
    own = cuda.stream()
    outputs = [cuda.device_array(16 * 256, dtype=np.float32) for _ in streams]
    total = cuda.to_device(np.zeros(1, dtype=np.int32))

    def loop(steps: int):
        for _ in range(steps):
            for stream, output in zip(streams, outputs, strict=True):
                spin[16, 256, stream](output, 40_000)
                if fixed:
                    count_up[1, 1, own](total)
                else:
                    count_up[1, 1](total)
            yield

    return loop
