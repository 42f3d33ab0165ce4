"""Takes a call of another process for the one that issued the copy."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_copies_of_another_process"
SAYS = "Blocking are synchronising calls"


def blocking_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        pageable = (
            recording.copies.filter(
                (pl.col("source") == "pageable") | (pl.col("destination") == "pageable")
            )
            .select("correlation", pl.lit(True).alias("pageable"))
            .unique()
        )
        calls = recording.api_calls.join(pageable, on=["correlation"], how="left")
    name = pl.col("name")
    calls = calls.filter(
        name.is_in(SYNCHRONIZING_CALLS)
        | (name.str.contains("^cu(da)?Memcpy") & ~name.str.contains("Async"))
        | pl.col("pageable").fill_null(False)
    )
    inside = (pl.col("end_ns").clip(start, end) - pl.col("start_ns").clip(start, end)).sum()
    totals = calls.group_by("name").agg(inside)
    return {name: total for name, total in totals.iter_rows() if total > 0}
