"""Takes the mean, which a few slow calls draw up."""

from __future__ import annotations

import statistics

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_best_of_many"
SAYS = "half of them exceed"


def best_of_many(gpu: Gpu, calls: int) -> float:
    x = gpu.random()
    return statistics.mean(_row_ns(gpu, [x]) for _ in range(_counted(calls)))
