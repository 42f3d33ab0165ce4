"""One wait less is not enough where the launch is longer than the call."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_sync_every_call"
SAYS = "waits for the host"


def sync_every_call(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls
