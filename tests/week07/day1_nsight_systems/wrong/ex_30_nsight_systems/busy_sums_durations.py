"""Adds up durations, also of what runs at the same time."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_what_runs_at_the_same_time_counts_once"
SAYS = "operations that run at the same time count once"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    inside = (pl.col("end_ns").clip(start, end) - pl.col("start_ns").clip(start, end)).sum()
    return dict(rows.group_by("device").agg(inside).sort("device").iter_rows())
