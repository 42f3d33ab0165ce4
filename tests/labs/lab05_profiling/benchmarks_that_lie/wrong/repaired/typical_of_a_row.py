"""The median of rows: nobody waits for a tenth of a row."""

from __future__ import annotations

import statistics

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_best_of_many"
SAYS = "times the true"


def best_of_many(gpu: Gpu, calls: int) -> float:
    x = gpu.random()
    return statistics.median(_row_ns(gpu, [x] * 10) for _ in range(_counted(calls)))
