"""Overlooks what lasts longer than the window."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_nested_overhead_counts_once"
SAYS = "expected 2000"


def profiler_overhead(capture: str, nvtx_range: str | None = None) -> int:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        return _union_ns(
            recording.overhead.filter(
                pl.col("start_ns").is_between(start, end) | pl.col("end_ns").is_between(start, end)
            ),
            start,
            end,
        )
