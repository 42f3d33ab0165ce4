"""The sixth look: pairs on CuPy."""

from __future__ import annotations

import cupy
import numpy as np
from cupy.cuda import runtime
from harness import Loop, size

SMOOTH = cupy.RawKernel(
    """
    extern "C" __global__ void smooth(const float* from, float* to, int side) {
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
        if (x < 1 || y < 1 || x >= side - 1 || y >= side - 1) return;
        const float* at = from + y * side + x;
        to[y * side + x] = 0.2f * (at[0] + at[-1] + at[1] + at[-side] + at[side]);
    }
    """,
    "smooth",
)
ESCAPE = cupy.RawKernel(
    """
    extern "C" __global__ void escape(float* out, int rounds) {
        float re = 0, im = 0, at = 0.001f * (blockIdx.x * blockDim.x + threadIdx.x);
        for (int n = 0; n < rounds; ++n) {
            float next = re * re - im * im + 0.1f * at;
            im = 2 * re * im + 0.3f;
            re = next < 4 ? next : 0.5f;
        }
        out[blockIdx.x * blockDim.x + threadIdx.x] = re + im;
    }
    """,
    "escape",
)


def _means(points: int, width: int, groups: int):
    random = cupy.random.default_rng(0)
    return random.random((points, width), dtype=np.float32), random.random(
        (groups, width), dtype=np.float32
    )


def _moved(points, means):
    """The means of the points that are nearest to each, by how much they moved."""
    near = (points @ means.T - 0.5 * (means * means).sum(axis=1)).argmax(axis=1)
    member = (near[:, None] == cupy.arange(len(means))).astype(np.float32)
    new = (member.T @ points) / cupy.maximum(member.sum(axis=0), 1)[:, None]
    return new, cupy.abs(new - means).max()


def means_compared_cupy(fixed: bool) -> Loop:
    points, start = _means(60_000, 32, 32)

    def loop(steps: int):
        """A step is 20 rounds of k-means."""
        for _ in range(steps):
            means = start
            for _ in range(20):
                means, change = _moved(points, means)
                if not fixed and float(change) < 0:
                    break
            yield

    return loop


def blocks_streamed_cupy(fixed: bool) -> Loop:
    blocks = [np.ones((2048, 2048), dtype=np.float32) for _ in range(4)]
    there = [cupy.asarray(block) for block in blocks]

    def loop(steps: int):
        for _ in range(steps):
            for block in there if fixed else blocks:
                own = cupy.asarray(block)
                own @ own
            yield

    return loop


def stencil_captured_cupy(fixed: bool) -> Loop:
    side = 512
    field, other = (cupy.ones((side, side), dtype=np.float32) for _ in range(2))
    stream = cupy.cuda.Stream(non_blocking=True)
    shape = (side // 256, side), (256,)

    def sweep() -> None:
        for _ in range(25):
            SMOOTH(*shape, (field, other, np.int32(side)))
            SMOOTH(*shape, (other, field, np.int32(side)))

    run = sweep
    with stream:
        sweep()
        if fixed:
            stream.begin_capture()
            sweep()
            run = stream.end_capture().launch

    def loop(steps: int):
        for _ in range(steps):
            with stream:
                run()
            yield

    return loop


def pool_shrinks_cupy(fixed: bool) -> Loop:
    """The driver's pool gives free memory back when the host waits, unless it is told to keep it."""
    cupy.cuda.set_allocator(cupy.cuda.malloc_async)
    pool = runtime.deviceGetDefaultMemPool(0)
    keeps = 2**62 if fixed else 0  # bytes
    runtime.memPoolSetAttribute(pool, runtime.cudaMemPoolAttrReleaseThreshold, keeps)
    field = cupy.ones((4096, 4096), dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            own = cupy.sqrt(field) + field * 2
            own.sum()
            del own
            cupy.cuda.get_current_stream().synchronize()
            yield

    return loop


def sets_on_streams_cupy(fixed: bool) -> Loop:
    streams = [cupy.cuda.Stream(non_blocking=fixed) for _ in range(6)]
    outputs = [cupy.empty(10 * 128, dtype=np.float32) for _ in streams]
    total = cupy.zeros(256, dtype=np.float32)

    def loop(steps: int):
        for _ in range(steps):
            for stream, output in zip(streams, outputs, strict=True):
                with stream:
                    ESCAPE((10,), (128,), (output, np.int32(30_000)))
                cupy.add(total, 1, out=total)
            yield

    return loop


def steady_stencil_cupy(fixed: bool) -> Loop:
    side = 16_384
    field, other = (cupy.ones((side, side), dtype=np.float32) for _ in range(2))
    shape = (side // 256, side), (256,)

    def loop(steps: int):
        for _ in range(steps):
            SMOOTH(*shape, (field, other, np.int32(side)))
            SMOOTH(*shape, (other, field, np.int32(side)))
            yield

    return loop


def steady_means_cupy(fixed: bool) -> Loop:
    points, start = _means(size(4_000_000, 50), 32, 64)

    def loop(steps: int):
        means = start
        for _ in range(steps):
            means, _change = _moved(points, means)
            yield

    return loop
