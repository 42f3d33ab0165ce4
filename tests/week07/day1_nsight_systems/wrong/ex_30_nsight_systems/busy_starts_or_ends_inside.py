"""Takes operations that start or end in the window, not those around it."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_operation_longer_than_the_window"
SAYS = "with their part inside the window"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations

    out = {}
    for device in sorted(rows["device"].unique().to_list()):
        own = rows.filter(
            (pl.col("device") == device)
            & (pl.col("start_ns").is_between(start, end) | pl.col("end_ns").is_between(start, end))
        )
        out[device] = _union_ns(own, start, end)
    return out
