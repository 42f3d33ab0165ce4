"""Three calls must be enough."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_no_warm_up"
SAYS = "clocks were not up"


def no_warm_up(gpu: Gpu, calls: int) -> float:
    x = gpu.random()
    for _ in range(3):
        gpu.call(x)
    return _row_ns(gpu, [x] * _counted(calls))
