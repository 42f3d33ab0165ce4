"""Divides by 2^30 and calls it GB."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_wrong_unit"
SAYS = "10^9 bytes"


def wrong_unit(gpu: Gpu, calls: int, input_bytes: int) -> float:
    seconds = _row_ns(gpu, [gpu.random()] * _counted(calls)) / 1e9
    return 2 * input_bytes / seconds / 2**30
