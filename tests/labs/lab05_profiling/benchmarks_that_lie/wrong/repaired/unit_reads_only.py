"""Forgets what is written."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_wrong_unit"
SAYS = "as it writes"


def wrong_unit(gpu: Gpu, calls: int, input_bytes: int) -> float:
    return input_bytes / _row_ns(gpu, [gpu.random()] * _counted(calls))
