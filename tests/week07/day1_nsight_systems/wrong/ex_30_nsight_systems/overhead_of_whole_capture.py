"""Counts what the profiler did outside the window too."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_nested_overhead_counts_once"
SAYS = "Only the part inside the window counts"


def profiler_overhead(capture: str, nvtx_range: str | None = None) -> int:
    with captures.open(capture) as recording:
        return _union_ns(recording.overhead, 0, 2**62)
