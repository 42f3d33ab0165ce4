"""The flush lies between the events."""

from __future__ import annotations

import statistics

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_warm_cache"
SAYS = "nothing but the call"


def warm_cache(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    times = []
    for _ in range(calls):
        start = gpu.record()
        gpu.flush()
        gpu.call(x)
        end = gpu.record()
        gpu.sync()
        times.append(gpu.elapsed_ns(start, end))
    return statistics.median(times)
