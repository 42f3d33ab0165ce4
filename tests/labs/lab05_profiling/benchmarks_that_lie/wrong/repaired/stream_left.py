"""Moves the calls to the events, instead of the events to the calls."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_side_stream"
SAYS = "what is asked"


def side_stream(gpu: Gpu, calls: int, stream: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    gpu.sync()
    start = gpu.record()
    for _ in range(calls):
        gpu.call(x)
    end = gpu.record()
    gpu.sync()
    return gpu.elapsed_ns(start, end) / calls
