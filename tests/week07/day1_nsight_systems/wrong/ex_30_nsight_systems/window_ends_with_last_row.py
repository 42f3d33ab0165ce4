"""Takes the end of the operation that starts last."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_window_is_first_start_to_last_end"
SAYS = "one that started earlier ends later"


def find_window(capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
    with captures.open(capture) as recording:
        rows = recording.device_operations
        if nvtx_range is not None:
            rows = recording.nvtx_ranges.filter(pl.col("name") == nvtx_range)
        return rows["start_ns"][0], rows["end_ns"][-1]
