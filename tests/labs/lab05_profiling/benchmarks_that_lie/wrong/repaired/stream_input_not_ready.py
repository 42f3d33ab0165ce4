"""Does not wait for the input, which another stream is still making."""

from __future__ import annotations

from profiling_lab.virtual_gpu import Gpu

CAUGHT_BY = "test_side_stream"
SAYS = "before its input was ready"


def side_stream(gpu: Gpu, calls: int, stream: int) -> float:
    x = gpu.random()
    start = gpu.record(stream=stream)
    for _ in range(_counted(calls)):
        gpu.call(x, stream=stream)
    end = gpu.record(stream=stream)
    gpu.sync()
    return gpu.elapsed_ns(start, end) / calls
