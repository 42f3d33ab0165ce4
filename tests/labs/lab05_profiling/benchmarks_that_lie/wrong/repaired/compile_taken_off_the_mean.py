"""Hopes that one call more makes up for the compilation."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_compile_inside"
SAYS = "times the true"


def compile_inside(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    gpu.call(x)
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / (calls + 1)
