"""The eighth look: programs on CuPy."""

from __future__ import annotations

import cupy
import numpy as np
from harness import Loop

PULLED = cupy.RawKernel(
    """
    extern "C" __global__ void pulled(const float4* bodies, float4* pull, int count) {
        int own = blockIdx.x * blockDim.x + threadIdx.x;
        float4 at = bodies[own];
        float x = 0, y = 0, z = 0;
        __shared__ float4 near[256];
        for (int first = 0; first < count; first += 256) {
            near[threadIdx.x] = bodies[first + threadIdx.x];
            __syncthreads();
            for (int n = 0; n < 256; ++n) {
                float dx = near[n].x - at.x, dy = near[n].y - at.y, dz = near[n].z - at.z;
                float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
                float force = near[n].w * inverse * inverse * inverse;
                x += dx * force;
                y += dy * force;
                z += dz * force;
            }
            __syncthreads();
        }
        pull[own] = make_float4(x, y, z, 0);
    }
    """,
    "pulled",
)


def best_split(values: list[float]) -> float:
    """Where to split values so that the two groups differ most, as Otsu's method does."""
    order = sorted(values)
    whole, count = sum(order), len(order)
    below, best, place = 0.0, -1.0, 0.0
    for number, value in enumerate(order[:-1], start=1):
        below += value
        apart = below / number - (whole - below) / (count - number)
        between = number * (count - number) * apart * apart
        if between > best:
            best, place = between, value
    return place


def split_searched_cupy(fixed: bool) -> Loop:
    """How much each column varies is read in both versions; then the faulty one looks for two groups, in Python."""
    table = cupy.random.default_rng(0).standard_normal((8192, 6144), dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            varies = cupy.diagonal(table.T @ table).get()
            if not fixed:
                best_split(varies.tolist())
            yield

    return loop


def steady_bodies_cupy(fixed: bool) -> Loop:
    """Each of many bodies is pulled by all others."""
    count = 131_072
    bodies = cupy.random.default_rng(0).random((count, 4), dtype=np.float32)
    speed, pull = cupy.zeros_like(bodies), cupy.empty_like(bodies)

    def loop(steps: int):
        for _ in range(steps):
            PULLED((count // 256,), (256,), (bodies, pull, np.int32(count)))
            cupy.add(speed, pull * np.float32(1e-6), out=speed)
            cupy.add(bodies, speed, out=bodies)
            yield

    return loop
