"""Reads the table of kernels, which a capture of copies does not have."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_capture_without_kernels"
SAYS = "MissingTable"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        kernels = recording.kernels
        parts = [kernels, recording.graph_launches, recording.copies, recording.memsets]
    rows = pl.concat([part.select("start_ns", "end_ns", "device") for part in parts])
    return {
        device: _union_ns(rows.filter(pl.col("device") == device), start, end)
        for device in sorted(rows["device"].unique().to_list())
    }
