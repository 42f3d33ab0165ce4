"""Fresh inputs, made while the clock runs."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_same_input"
SAYS = "inputs take time to make"


def same_input(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(gpu.random())
    gpu.sync()
    return (gpu.clock_ns() - start) / calls
