"""Waits for the flush: the device is idle between the event and the call, until that is issued."""

from __future__ import annotations

import statistics

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_warm_cache"
SAYS = "times the true"


def warm_cache(gpu: Gpu, calls: int) -> float:
    x = gpu.random()
    times = []
    for _ in range(_counted(calls)):
        gpu.flush()
        gpu.sync()
        start = gpu.record()
        gpu.call(x)
        end = gpu.record()
        gpu.sync()
        times.append(gpu.elapsed_ns(start, end))
    return float(statistics.median(times))
