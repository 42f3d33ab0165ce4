"""Takes the whole capture where no range has the name."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_unknown_range_names_those_that_exist"
SAYS = "it must raise CaptureError"


def find_window(capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
    with captures.open(capture) as recording:
        named = recording.nvtx_ranges.filter(pl.col("name") == nvtx_range)
        if nvtx_range is None or named.is_empty():
            return recording.span_ns
        return named["start_ns"].min(), named["end_ns"].max()
