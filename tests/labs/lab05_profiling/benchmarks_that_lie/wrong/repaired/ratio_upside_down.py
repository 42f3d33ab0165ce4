"""The ratio the other way round."""

from __future__ import annotations

import statistics

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_one_after_the_other"
SAYS = "as a ratio"


def one_after_the_other(gpu: Gpu, calls: int) -> float:
    x = gpu.random()
    ratios = []
    for _ in range(_counted(calls)):
        first_ns, second_ns = (_row_ns(gpu, [x], kernel) for kernel in (0, 1))
        ratios.append(first_ns / second_ns)
    return statistics.median(ratios)
