"""Adds up intervals that nest and overlap."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_overhead_on_several_threads"
SAYS = "intervals nest, and different threads overlap"


def profiler_overhead(capture: str, nvtx_range: str | None = None) -> int:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.overhead
    inside = rows["end_ns"].clip(start, end) - rows["start_ns"].clip(start, end)
    return int(inside.sum())
