"""The seventh look: pairs on CuPy."""

from __future__ import annotations

import cupy
import numpy as np
from harness import Loop

PRICED = cupy.ElementwiseKernel(
    "int32 path, int32 moments",
    "float32 price",
    """
    unsigned int state = 1664525u * (unsigned int)path + 1013904223u;
    float worth = 1.0f;
    for (int moment = 0; moment < moments; ++moment) {
        state = 1664525u * state + 1013904223u;
        float chance = (float)(state >> 8) * 5.9604645e-8f - 0.5f;
        worth = worth * (1.0f + 0.001f * chance);
    }
    price = worth > 1.0f ? worth - 1.0f : 0.0f;
    """,
    "priced",
)


def pool_per_job_cupy(fixed: bool) -> Loop:
    """Each job has a memory pool of its own, so that nothing of it is left behind; or one pool serves all."""
    field = cupy.ones((4096, 4096), dtype=np.float32)
    shared = cupy.cuda.MemoryPool()

    def job(pool) -> None:
        with cupy.cuda.using_allocator(pool.malloc):
            faded = cupy.exp(-field)
            mixed = faded @ field
            sharp = cupy.tanh(mixed)
            cupy.sqrt(sharp * sharp + faded).sum()

    def loop(steps: int):
        for _ in range(steps):
            job(shared if fixed else cupy.cuda.MemoryPool())
            yield

    return loop


def prices_on_streams_cupy(fixed: bool) -> Loop:
    """Three options of different length, each on a stream; a count on the default stream behind each."""
    streams = [cupy.cuda.Stream(non_blocking=fixed) for _ in range(3)]
    moments = [np.int32(n) for n in (120_000, 80_000, 40_000)]
    paths = cupy.arange(2048, dtype=np.int32)
    prices = [cupy.empty(2048, dtype=np.float32) for _ in streams]
    done = cupy.zeros(256, dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            for stream, length, price in zip(streams, moments, prices, strict=True):
                with stream:
                    PRICED(paths, length, price)
                cupy.add(done, 1, out=done)
            yield

    return loop


def steady_prices_cupy(fixed: bool) -> Loop:
    paths = cupy.arange(4_000_000, dtype=np.int32)
    price = cupy.empty(4_000_000, dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            PRICED(paths, np.int32(4000), price)
            price.mean()
            yield

    return loop
