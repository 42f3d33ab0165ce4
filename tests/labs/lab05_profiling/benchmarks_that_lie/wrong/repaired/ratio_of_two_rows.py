"""All of one, then all of the other."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_one_after_the_other"
SAYS = "who comes later"


def one_after_the_other(gpu: Gpu, calls: int) -> float:
    inputs = [gpu.random()] * _counted(calls)
    first_ns, second_ns = (_row_ns(gpu, inputs, kernel) for kernel in (0, 1))
    return second_ns / first_ns
