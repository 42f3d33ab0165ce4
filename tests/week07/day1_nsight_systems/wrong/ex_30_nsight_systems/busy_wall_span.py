"""Takes the time from first start to last end."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_each_device_has_its_own_busy_time"
SAYS = "in which the device also idled"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    length = pl.col("end_ns").clip(start, end).max() - pl.col("start_ns").clip(start, end).min()
    return dict(rows.group_by("device").agg(length).sort("device").iter_rows())
