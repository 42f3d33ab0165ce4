"""Fresh inputs, used up by the warm-up."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_same_input"
SAYS = "knows already does not run"


def same_input(gpu: Gpu, calls: int) -> float:
    if calls < 1:
        raise ValueError("calls must be at least 1")
    inputs = [gpu.random() for _ in range(calls)]
    for x in inputs:
        gpu.call(x)
    return _row_ns(gpu, inputs)
