"""Events around a device that waits for the host between calls."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_sync_every_call"
SAYS = "waits for the host"


def sync_every_call(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.record()
    for _ in range(calls):
        gpu.call(x)
    end = gpu.record()
    gpu.sync()
    return gpu.elapsed_ns(start, end) / calls
