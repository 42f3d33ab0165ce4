"""Random data to warm up with, and zeros when it counts."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_zeros"
SAYS = "Zeros run faster"


def zeros(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    gpu.call(gpu.random())
    x = gpu.zeros()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls
