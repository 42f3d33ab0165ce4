"""Ten rows to warm up, however long the clocks take."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_no_warm_up"
SAYS = "The clocks were not up yet"


def no_warm_up(gpu: Gpu, calls: int) -> float:
    inputs = [gpu.random()] * _counted(calls)
    for _ in range(10):
        _row_ns(gpu, inputs)
    return _row_ns(gpu, inputs)
