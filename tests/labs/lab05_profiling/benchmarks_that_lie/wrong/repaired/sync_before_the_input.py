"""Waits first and makes the input then: the device is still at it when the clock starts."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_no_sync"
SAYS = "that was not issued in it"


def no_sync(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    gpu.sync()
    x = gpu.random()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls
