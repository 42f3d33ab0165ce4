"""Lets the window begin and end with kernels."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_window_is_first_start_to_last_end"
SAYS = "copies, memsets and graphs are device operations too"


def find_window(capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
    with captures.open(capture) as recording:
        rows = recording.kernels
        if nvtx_range is not None:
            rows = recording.nvtx_ranges.filter(pl.col("name") == nvtx_range)
        return rows["start_ns"].min(), rows["end_ns"].max()
