"""Divides by the calls that were tried."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_unchecked_result"
SAYS = "must not be counted"


def unchecked_result(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    outputs = [gpu.call(x) for _ in range(calls)]
    gpu.sync()
    took_ns = gpu.clock_ns() - start
    if not any(gpu.ok(output) for output in outputs):
        raise RuntimeError("nothing ran")
    return took_ns / calls
