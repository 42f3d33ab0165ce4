"""Makes the copy, and measures calls on another input."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_copy_inside"
SAYS = "never on the host"


def copy_inside(gpu: Gpu, calls: int) -> float:
    gpu.to_device(gpu.on_host())
    return _row_ns(gpu, [gpu.random()] * _counted(calls))
