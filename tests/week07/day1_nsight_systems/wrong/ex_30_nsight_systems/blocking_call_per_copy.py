"""Counts a call once for each copy that it issued."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_call_with_several_copies_counts_once"
SAYS = "it held the host once"


def blocking_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        pageable = recording.copies.filter(
            (pl.col("source") == "pageable") | (pl.col("destination") == "pageable")
        ).select("process", "correlation", pl.lit(True).alias("pageable"))
        calls = recording.api_calls.join(pageable, on=["process", "correlation"], how="left")
    name = pl.col("name")
    synchronous_copy = name.str.contains("^cu(da)?Memcpy") & ~name.str.contains("Async")
    blocking = calls.filter(
        name.is_in(SYNCHRONIZING_CALLS) | synchronous_copy | pl.col("pageable").fill_null(False)
    ).select(
        "name",
        (pl.col("end_ns").clip(start, end) - pl.col("start_ns").clip(start, end)).alias(
            "inside_ns"
        ),
    )
    totals = blocking.group_by("name").agg(pl.col("inside_ns").sum()).sort("name")
    return {name: int(total) for name, total in totals.iter_rows() if total > 0}
