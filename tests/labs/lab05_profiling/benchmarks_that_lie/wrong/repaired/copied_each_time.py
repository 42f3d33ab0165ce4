"""The copy stays in the row."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_copy_inside"
SAYS = "in the device's memory already"


def copy_inside(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.on_host()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(gpu.to_device(x))
    gpu.sync()
    return (gpu.clock_ns() - start) / calls
