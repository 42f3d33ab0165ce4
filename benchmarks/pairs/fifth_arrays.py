"""The fifth look: pairs on CuPy's signal and image functions."""

from __future__ import annotations

import cupy
import numpy as np
from cupyx.scipy import ndimage, signal
from harness import Loop

SIDE = 4096


def images_fetched_cupyx(fixed: bool) -> Loop:
    picture = cupy.random.default_rng(0).random((SIDE, SIDE), dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            smooth = ndimage.uniform_filter(picture, 9)
            _kept = smooth if fixed else cupy.asnumpy(smooth)
            yield

    return loop


def scratch_cleared_on_streams_cupy(fixed: bool) -> Loop:
    streams = [cupy.cuda.Stream(non_blocking=fixed) for _ in range(4)]
    parts = [cupy.ones((256, 256), dtype=np.float32) for _ in streams]
    spin = cupy.RawKernel(
        """
        extern "C" __global__ void spin(float* a, int rounds) {
            float value = a[threadIdx.x];
            for (int n = 0; n < rounds; ++n) value = value * 0.999f + 0.5f;
            a[blockIdx.x * blockDim.x + threadIdx.x] = value;
        }
        """,
        "spin",
    )
    scratch = cupy.ones(1024, dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            for _ in range(3):
                for stream, part in zip(streams, parts, strict=True):
                    with stream:
                        spin((16,), (256,), (part, np.int32(40_000)))
                    with cupy.cuda.Stream.null:
                        scratch.fill(0)
            yield

    return loop


def steady_convolutions_cupyx(fixed: bool) -> Loop:
    values = cupy.random.default_rng(0).random((SIDE, SIDE), dtype=np.float32)
    window = cupy.ones((63, 63), dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            signal.fftconvolve(values, window, mode="same")
            yield

    return loop
