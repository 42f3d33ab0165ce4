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


# -- the second look ------------------------------------------------------------------------------


@cuda.jit
def relax(values, out):
    place = cuda.grid(1)
    if 0 < place < values.size - 1:
        out[place] = 0.5 * (values[place - 1] + values[place + 1])


def array_made_numba(fixed: bool) -> Loop:
    count = 1 << 24
    values = cuda.to_device(np.zeros(count, dtype=np.float32))
    kept = cuda.device_array(count, dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            out = kept if fixed else cuda.device_array(count, dtype=np.float32)
            for _ in range(4):
                relax[count // 256, 256](values, out)
            if not fixed:
                del out
                cuda.current_context().deallocations.clear()
            yield

    return loop


def streams_copied_numba(fixed: bool) -> Loop:
    streams = [cuda.stream() for _ in range(2)]
    own = cuda.stream()
    outputs = [cuda.device_array(20 * 256, dtype=np.float32) for _ in streams]
    total = cuda.to_device(np.zeros(1, dtype=np.int32))

    def loop(steps: int):
        for _ in range(steps):
            for stream, output in zip(streams, outputs, strict=True):
                spin[20, 256, stream](output, 60_000)
                count_up[1, 1, own if fixed else 0](total)
            yield

    return loop
