"""Takes the time spent in something for the time that it costs."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_savings_are_those_of_a_run_without_the_cause"
SAYS = "no more than its idle time can be saved"


def recoverable_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        calls = recording.api_calls.filter(pl.col("start_ns").is_between(start, end))
        copies = recording.copies.filter(pl.col("start_ns").is_between(start, end))

    def spent(pattern: str) -> int:
        return min(
            end - start,
            int(calls.filter(pl.col("name").str.contains(pattern))["duration_ns"].sum()),
        )

    return {
        "waits": spent("Synchronize"),
        "launch_cost": spent("Launch"),
        "copies": min(end - start, int(copies["duration_ns"].sum())),
        "allocation": spent("Malloc|Free"),
        "host_code": max(0, end - start - int(calls["duration_ns"].sum())),
    }
