"""No call before the clock starts."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_compile_inside"
SAYS = "once the work is compiled"


def compile_inside(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls
