"""Knows three synchronous copies by name."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_which_names_are_those_of_synchronous_copies"
SAYS = "A plain copy holds the host too"


def blocking_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    start, end = find_window(capture, nvtx_range)
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
    synchronous_copy = name.is_in(["cudaMemcpy", "cudaMemcpy2D", "cuMemcpyHtoD"])
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
