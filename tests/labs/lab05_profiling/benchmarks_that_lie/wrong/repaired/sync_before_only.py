"""Waits before the row, and not at its end."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_no_sync"
SAYS = "ran from"


def no_sync(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    return (gpu.clock_ns() - start) / calls
