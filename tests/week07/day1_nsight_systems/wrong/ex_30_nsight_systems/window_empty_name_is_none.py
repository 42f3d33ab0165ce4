"""Takes an empty name for no name."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures
from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_empty_name_is_a_name"
SAYS = "it must raise CaptureError"


def find_window(capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
    with captures.open(capture) as recording:
        if not nvtx_range:
            return recording.span_ns
        ranges = recording.nvtx_ranges
        named = ranges.filter(pl.col("name") == nvtx_range)
        if named.is_empty():
            known = ", ".join(sorted(ranges["name"].unique().to_list())) or "none"
            raise CaptureError(f"{capture}: no NVTX range {nvtx_range!r}; ranges here: {known}")
        return int(named["start_ns"].min()), int(named["end_ns"].max())
