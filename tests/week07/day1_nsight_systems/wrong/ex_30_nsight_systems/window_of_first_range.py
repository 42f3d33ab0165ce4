"""Takes the first range of the name, not all of them."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_window_of_all_ranges_of_a_name"
SAYS = "That is the first range of"


def find_window(capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
    with captures.open(capture) as recording:
        if nvtx_range is None:
            return recording.span_ns
        return recording.nvtx_ranges.filter(pl.col("name") == nvtx_range).row(0)[:2]
