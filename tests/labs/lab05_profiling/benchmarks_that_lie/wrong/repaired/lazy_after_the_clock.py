"""Evaluates all outputs, after the clock was read."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_lazy_result"
SAYS = "times the true"


def lazy_result(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    outputs = [gpu.call(x) for _ in range(calls)]
    gpu.sync()
    took_ns = gpu.clock_ns() - start
    for output in outputs:
        gpu.evaluate(output)
    return took_ns / calls
