"""Counts the calls of the whole capture, whatever the range."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_blocking_time_in_a_range"
SAYS = "only the part inside the window counts"


def blocking_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    start, end = 0, 2**62
    with captures.open(capture) as recording:
        pageable = (
            recording.copies.filter(
                (pl.col("source") == "pageable") | (pl.col("destination") == "pageable")
            )
            .select("process", "correlation", pl.lit(True).alias("pageable"))
            .unique()
        )
        calls = recording.api_calls.join(pageable, on=["process", "correlation"], how="left")
    name = pl.col("name")
    calls = calls.filter(
        name.is_in(SYNCHRONIZING_CALLS)
        | (name.str.contains("^cu(da)?Memcpy") & ~name.str.contains("Async"))
        | pl.col("pageable").fill_null(False)
    )
    inside = (pl.col("end_ns").clip(start, end) - pl.col("start_ns").clip(start, end)).sum()
    totals = calls.group_by("name").agg(inside)
    return {name: total for name, total in totals.iter_rows() if total > 0}
