"""Looks at one process only."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_processes_share_a_device"
SAYS = "That is one process"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations

    out = {}
    for device in sorted(rows["device"].unique().to_list()):
        own = rows.filter(
            (pl.col("device") == device) & (pl.col("process") == rows["process"].min())
        )
        out[device] = _union_ns(own, start, end)
    return out
