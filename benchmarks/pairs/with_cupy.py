"""Pairs on CuPy."""

from __future__ import annotations

import math

import cupy
import numpy as np
from harness import Loop

SPIN = cupy.RawKernel(
    r"""
extern "C" __global__ void spin(float* out, int rounds) {
  float value = threadIdx.x;
  for (int i = 0; i < rounds; ++i) value = value * 0.999f + 0.5f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
""",
    "spin",
)


def pool_off_cupy(fixed: bool) -> Loop:
    if not fixed:
        cupy.cuda.set_allocator(None)
    field = cupy.random.random((2048, 2048), dtype=cupy.float32)

    def loop(steps: int):
        now = field
        for _ in range(steps):
            around = cupy.roll(now, 1, 0) + cupy.roll(now, -1, 0)
            across = cupy.roll(now, 1, 1) + cupy.roll(now, -1, 1)
            now = 0.25 * (around + across)
            yield

    return loop


def residual_read_cupy(fixed: bool) -> Loop:
    side = 1024
    start = cupy.random.random((side, side), dtype=cupy.float32)
    smooth = cupy.ElementwiseKernel(
        "raw float32 u, int32 n",
        "float32 v",
        "int r = i / n, c = i % n; v = 0.25f * (u[(r > 0 ? i - n : i)] + u[(r < n - 1 ? i + n : i)]"
        " + u[(c > 0 ? i - 1 : i)] + u[(c < n - 1 ? i + 1 : i)])",
        "smooth",
    )
    distance = cupy.ReductionKernel(
        "float32 a, float32 b", "float32 d", "abs(a - b)", "max(a, b)", "d = a", "0", "distance"
    )

    def loop(steps: int):
        now, following = start.copy(), cupy.empty_like(start)
        for number in range(steps):
            smooth(now, side, following)
            left = distance(now, following)
            if (not fixed or number % 50 == 49) and float(left) < 1e-9:
                break
            now, following = following, now
            yield

    return loop


def round_trip_cupy(fixed: bool) -> Loop:
    values = np.random.default_rng(0).random((2048, 2048), dtype=np.float32)

    def loop(steps: int):
        now = cupy.asarray(values) if fixed else values
        for _ in range(steps):
            there = cupy.asarray(now)
            there = cupy.tanh(there @ there * 1e-3)
            now = there if fixed else cupy.asnumpy(there)
            yield

    return loop


def elementwise_chain_cupy(fixed: bool) -> Loop:
    def model(x, y):
        z = x * 0.9 + y * 0.1
        z = z * z + 0.5 * x - y
        z = z * 0.3 + x * y
        return z * 0.5 + 0.1

    run = cupy.fuse()(model) if fixed else model
    x = cupy.random.random(4096, dtype=cupy.float32)
    y = cupy.random.random(4096, dtype=cupy.float32)

    def loop(steps: int):
        now = x
        for _ in range(steps):
            now = run(now, y)
            yield

    return loop


def coefficients_in_python_cupy(fixed: bool) -> Loop:
    order = 4000
    matrix = cupy.random.random((1536, 1536), dtype=cupy.float32)

    def coefficients(step: int) -> list[float]:
        return [math.cos(k * 0.01 + step) / (k + 1) for k in range(order)]

    ready = coefficients(0)

    def loop(steps: int):
        now = matrix
        for step in range(steps):
            weight = sum(ready if fixed else coefficients(step))
            now = cupy.tanh((matrix @ now) * (weight * 1e-6))
            now = cupy.tanh(matrix @ now * 1e-3)
            yield

    return loop


def blocking_streams_cupy(fixed: bool) -> Loop:
    streams = [cupy.cuda.Stream(non_blocking=fixed) for _ in range(4)]
    outputs = [cupy.empty(16 * 256, dtype=cupy.float32) for _ in streams]
    count = cupy.zeros(1, dtype=cupy.float32)

    def loop(steps: int):
        for _ in range(steps):
            for stream, output in zip(streams, outputs, strict=True):
                with stream:
                    SPIN((16,), (256,), (output, np.int32(50_000)))
                count.__iadd__(1)
            yield

    return loop


# -- the second look ------------------------------------------------------------------------------


def pool_emptied_cupy(fixed: bool) -> Loop:
    pool = cupy.get_default_memory_pool()
    field = cupy.random.random((3072, 3072), dtype=cupy.float32)

    def loop(steps: int):
        now = field
        for _ in range(steps):
            now = cupy.tanh(now * 0.5) + cupy.sqrt(cupy.abs(now)) * 0.25
            if not fixed:
                pool.free_all_blocks()
            yield

    return loop


def maxima_read_cupy(fixed: bool) -> Loop:
    fields = [cupy.random.random((1024, 1024), dtype=cupy.float32) for _ in range(16)]

    def loop(steps: int):
        kept = []
        for _ in range(steps):
            for field in fields:
                largest = cupy.max(cupy.tanh(field))
                kept.append(largest if fixed else float(largest))
            yield

    return loop


def volume_sent_cupy(fixed: bool) -> Loop:
    volume = np.random.default_rng(0).random((64, 1024, 512), dtype=np.float32)
    there = cupy.asarray(volume)

    def loop(steps: int):
        for _ in range(steps):
            now = there if fixed else cupy.asarray(volume)
            cupy.fft.rfft(now, axis=2)
            yield

    return loop


def streams_of_sums_cupy(fixed: bool) -> Loop:
    streams = [cupy.cuda.Stream(non_blocking=fixed) for _ in range(3)]
    outputs = [cupy.empty(24 * 128, dtype=cupy.float32) for _ in streams]
    total = cupy.zeros(256, dtype=cupy.float32)

    def loop(steps: int):
        for _ in range(steps):
            for stream, output in zip(streams, outputs, strict=True):
                with stream:
                    SPIN((24,), (128,), (output, np.int32(80_000)))
                total.fill(1)
            yield

    return loop


def large_products_cupy(fixed: bool) -> Loop:
    matrix = cupy.random.random((6144, 6144), dtype=cupy.float32)

    def loop(steps: int):
        now = matrix
        for _ in range(steps):
            now = cupy.tanh(matrix @ now * 1e-4)
            yield

    return loop
