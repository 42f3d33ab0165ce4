"""Evaluates the last output only."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_lazy_result"
SAYS = "its own output is evaluated"


def lazy_result(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    outputs = [gpu.call(x) for _ in range(calls)]
    gpu.evaluate(outputs[-1])
    gpu.sync()
    return (gpu.clock_ns() - start) / calls
