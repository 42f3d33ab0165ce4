"""Counts operations that start in the window with all their time."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_only_the_part_inside_the_window_counts"
SAYS = "count with their part inside the window"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    out = {}
    for device in sorted(rows["device"].unique().to_list()):
        own = rows.filter(
            (pl.col("device") == device) & pl.col("start_ns").is_between(start, end, closed="left")
        )
        out[device] = _union_ns(own, 0, 2**62)
    return out
