"""Takes the wait in the middle of the list, which nobody has sorted."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_best_of_many"
SAYS = "times the true"


def best_of_many(gpu: Gpu, calls: int) -> float:
    x = gpu.random()
    waits = [_row_ns(gpu, [x]) for _ in range(_counted(calls))]
    return waits[len(waits) // 2]
