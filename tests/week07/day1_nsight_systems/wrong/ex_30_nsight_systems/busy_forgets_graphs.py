"""Looks for kernels, and calls a device idle that runs graphs."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_graphs_keep_a_device_busy"
SAYS = "CUDA graphs were recorded as a whole here"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    out = {}
    for device in sorted(rows["device"].unique().to_list()):
        own = rows.filter((pl.col("device") == device) & (pl.col("kind") != "graph"))
        out[device] = _union_ns(own, start, end)
    return out
