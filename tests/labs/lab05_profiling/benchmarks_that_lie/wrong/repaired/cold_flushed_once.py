"""Flushes once, before the first call."""

from __future__ import annotations

import statistics

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_warm_cache"
SAYS = "no flush lies between them"


def warm_cache(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    x = gpu.random()
    times = []
    gpu.flush()
    for _ in range(calls):
        start = gpu.record()
        gpu.call(x)
        end = gpu.record()
        gpu.sync()
        times.append(gpu.elapsed_ns(start, end))
    return statistics.median(times)
