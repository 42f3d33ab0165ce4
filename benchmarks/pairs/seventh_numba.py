"""The seventh look: a pair on Numba."""

from __future__ import annotations

import numpy as np
from harness import Loop

if not hasattr(np, "row_stack"):  # Numba asks for it
    np.row_stack = np.vstack
from numba import cuda


@cuda.jit
def grow(out, seasons):
    place = cuda.grid(1)
    share = np.float32(0.3)
    for _ in range(seasons):
        share = np.float32(3.6) * share * (np.float32(1.0) - share)
    out[place] = share


@cuda.jit
def tick(clock):
    clock[0] += 1


def herds_on_streams_numba(fixed: bool) -> Loop:
    """Two herds of different length, each on a stream; behind each a clock on the default stream, or on a third."""
    streams = [cuda.stream() for _ in range(2)]
    third = cuda.stream()
    herds = [cuda.device_array(24 * 128, dtype=np.float32) for _ in streams]
    clock = cuda.to_device(np.zeros(1, dtype=np.int32))

    def loop(steps: int):
        for _ in range(steps):
            for stream, herd, seasons in zip(streams, herds, (90_000, 54_000), strict=True):
                grow[24, 128, stream](herd, seasons)
                tick[1, 1, third if fixed else 0](clock)
            yield

    return loop
