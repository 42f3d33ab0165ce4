"""Hides with a 1 that nothing ran at all."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_unchecked_result"
SAYS = "all refused"


def unchecked_result(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    outputs = [gpu.call(x) for _ in range(calls)]
    gpu.sync()
    took_ns = gpu.clock_ns() - start
    return took_ns / max(1, sum(gpu.ok(output) for output in outputs))
