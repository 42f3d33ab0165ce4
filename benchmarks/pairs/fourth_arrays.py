"""The fourth look: pairs on CuPy and Numba."""

from __future__ import annotations

import cupy
import numpy as np
from harness import Loop
from with_numba import cuda, spin

SIDE = 2048


@cuda.jit
def smooth(now, out, change):
    column, row = cuda.grid(2)
    if 0 < row < now.shape[0] - 1 and 0 < column < now.shape[1] - 1:
        near = now[row - 1, column] + now[row + 1, column] + now[row, column - 1]
        value = np.float32(0.25) * (near + now[row, column + 1])
        out[row, column] = value
        if row == column:
            cuda.atomic.max(change, 0, abs(value - now[row, column]))


def change_copied_numba(fixed: bool) -> Loop:
    now = cuda.to_device(np.random.default_rng(0).random((SIDE, SIDE), dtype=np.float32))
    out = cuda.to_device(np.zeros((SIDE, SIDE), dtype=np.float32))
    change = cuda.to_device(np.zeros(1, dtype=np.float32))
    blocks = (SIDE // 16, SIDE // 16)

    def loop(steps: int):
        one, other = now, out
        for number in range(steps):
            smooth[blocks, (16, 16)](one, other, change)
            if (not fixed or number % 100 == 99) and change.copy_to_host()[0] < 0:
                break
            one, other = other, one
            yield

    return loop


@cuda.jit
def scale(values, out):
    place = cuda.grid(1)
    if place < values.size:
        out[place] = np.float32(2) * values[place] + np.float32(1)


def arrays_passed_numba(fixed: bool) -> Loop:
    count = 1 << 23
    values, out = np.ones(count, dtype=np.float32), np.empty(count, dtype=np.float32)
    there, kept = cuda.to_device(values), cuda.device_array(count, dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            if fixed:
                scale[count // 256, 256](there, kept)
            else:
                scale[count // 256, 256](values, out)  # Numba copies both, there and back
            yield

    return loop


def kernel_decorated_numba(fixed: bool) -> Loop:
    values = cuda.to_device(np.ones(1 << 20, dtype=np.float32))
    out = cuda.device_array(1 << 20, dtype=np.float32)

    def made():
        @cuda.jit
        def halve(values, out):
            place = cuda.grid(1)
            if place < values.size:
                out[place] = np.float32(0.5) * values[place]

        return halve

    once = made()

    def loop(steps: int):
        for _ in range(steps):
            run = once if fixed else made()
            run[4096, 256](values, out)
            yield

    return loop


def lengths_on_streams_numba(fixed: bool) -> Loop:
    streams = [cuda.stream() for _ in range(6)]
    own = cuda.stream()
    outputs = [cuda.device_array(8 * 256, dtype=np.float32) for _ in streams]
    mark = cuda.device_array(256, dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            for number, (stream, output) in enumerate(zip(streams, outputs, strict=True)):
                spin[8, 256, stream](output, 20_000 + 6_000 * number)
                spin[1, 256, own if fixed else 0](mark, 10)
            yield

    return loop


def rows_one_by_one_cupy(fixed: bool) -> Loop:
    table = cupy.random.random((400, 8192), dtype=cupy.float32)

    def loop(steps: int):
        for _ in range(steps):
            if fixed:
                _shares = table / table.sum(axis=1, keepdims=True)
            else:
                _shares = [row / row.sum() for row in table]
            yield

    return loop


def buffers_pinned_numba(fixed: bool) -> Loop:
    count = 1 << 22
    values = np.ones(count, dtype=np.float32)
    there, out = (cuda.device_array(count, dtype=np.float32) for _ in range(2))
    kept = cuda.pinned_array(count, dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            buffer = kept if fixed else cuda.pinned_array(count, dtype=np.float32)
            buffer[:] = values
            there.copy_to_device(buffer)
            scale[count // 256, 256](there, out)
            yield

    return loop


# -- nothing wrong --------------------------------------------------------------------------------


def steady_smooth_numba(fixed: bool) -> Loop:
    side = 8192
    now = cuda.to_device(np.random.default_rng(0).random((side, side), dtype=np.float32))
    out = cuda.to_device(np.zeros((side, side), dtype=np.float32))
    change = cuda.to_device(np.zeros(1, dtype=np.float32))
    blocks = (side // 16, side // 16)

    def loop(steps: int):
        for _ in range(steps):
            for _ in range(10):
                smooth[blocks, (16, 16)](now, out, change)
                smooth[blocks, (16, 16)](out, now, change)
            yield

    return loop


def steady_sorts_cupy(fixed: bool) -> Loop:
    values = cupy.random.random(1 << 26, dtype=cupy.float32)

    def loop(steps: int):
        for _ in range(steps):
            cupy.cumsum(cupy.sort(values))
            yield

    return loop
