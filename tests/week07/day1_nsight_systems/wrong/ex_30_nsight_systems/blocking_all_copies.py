"""Takes every copy call for a blocking one."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_pageable_copies_hold_the_host"
SAYS = "copies of pinned memory among them"


def blocking_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        calls = recording.api_calls.filter(
            pl.col("name").is_in(SYNCHRONIZING_CALLS)
            | pl.col("name").str.contains("^cu(da)?Memcpy")
        )
    inside = (pl.col("end_ns").clip(start, end) - pl.col("start_ns").clip(start, end)).sum()
    totals = calls.group_by("name").agg(inside)
    return {name: total for name, total in totals.iter_rows() if total > 0}
