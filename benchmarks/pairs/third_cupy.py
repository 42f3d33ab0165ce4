"""The third look: pairs on CuPy."""

from __future__ import annotations

import itertools
import os

import cupy
import numpy as np
from harness import Loop, size
from with_cupy import SPIN


def constants_compiled_cupy(fixed: bool) -> Loop:
    numbers = itertools.count(os.getpid() % 100_000 * 10_000)  # CuPy keeps what it compiled on disk
    x = cupy.random.random(size(1 << 20, 64), dtype=cupy.float32)
    usual = cupy.ElementwiseKernel("float32 x, float32 c", "float32 y", "y = x * c + 1", "scaled")

    def loop(steps: int):
        for _ in range(steps):
            number = next(numbers) * 1e-6 + 0.731
            if fixed:
                usual(x, np.float32(number))
            else:
                own = cupy.ElementwiseKernel(
                    "float32 x", "float32 y", f"y = x * {number}f + 1", "scaled"
                )
                own(x)
            yield

    return loop


def pinned_unpooled_cupy(fixed: bool) -> Loop:
    if not fixed:
        cupy.cuda.set_pinned_memory_allocator(None)
    frames = np.random.default_rng(0).random((size(512, 8), 1024), dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            there = cupy.asarray(frames)
            cupy.tanh(there @ there.T)
            yield

    return loop


def norm_read_cupy(fixed: bool) -> Loop:
    side = size(7168, 16)
    matrix = cupy.random.random((side, side), dtype=cupy.float32)
    start = cupy.ones(side, dtype=cupy.float32)

    def loop(steps: int):
        now, norms = start, []
        for _ in range(steps):
            there = matrix @ now
            norm = cupy.linalg.norm(there)
            now = there / norm
            norms.append(norm if fixed else float(norm))
            yield

    return loop


def snapshots_cupy(fixed: bool) -> Loop:
    field = cupy.random.random((size(3000, 16), 3000), dtype=cupy.float32)

    def loop(steps: int):
        now = field
        for _ in range(steps):
            for _ in range(12):
                now = cupy.tanh(now) * 0.5 + cupy.sin(now)
            if not fixed:
                cupy.asnumpy(now)
            yield

    return loop


def fields_on_streams_cupy(fixed: bool) -> Loop:
    streams = [cupy.cuda.Stream(non_blocking=fixed) for _ in range(5)]
    outputs = [cupy.empty(12 * 256, dtype=cupy.float32) for _ in streams]
    seen = cupy.zeros(64, dtype=cupy.float32)

    def loop(steps: int):
        for _ in range(steps):
            for stream, output in zip(streams, outputs, strict=True):
                with stream:
                    SPIN((12,), (256,), (output, np.int32(60_000)))
                cupy.sqrt(seen, seen)
            yield

    return loop


def steady_transforms_cupy(fixed: bool) -> Loop:
    field = cupy.random.random((size(512, 2), 1024, 64), dtype=cupy.float32)

    def loop(steps: int):
        for _ in range(steps):
            spectrum = cupy.fft.rfftn(field, axes=(1, 2))
            cupy.fft.irfftn(spectrum, axes=(1, 2))
            yield

    return loop
