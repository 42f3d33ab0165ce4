"""A whole row must be enough."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_no_warm_up"
SAYS = "clocks were not up"


def no_warm_up(gpu: Gpu, calls: int) -> float:
    inputs = [gpu.random()] * _counted(calls)
    return min(_row_ns(gpu, inputs) for _ in range(2))
