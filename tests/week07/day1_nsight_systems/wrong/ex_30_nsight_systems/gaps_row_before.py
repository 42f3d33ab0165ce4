"""Compares each start with the end of the row before."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_no_gap_inside_a_long_operation"
SAYS = "inside an operation that started earlier"


def idle_gaps(
    capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
) -> list[dict[str, int]]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    rows = rows.filter((pl.col("end_ns") > start) & (pl.col("start_ns") < end))
    gaps = []
    for device in sorted(rows["device"].unique().to_list()):
        at = start
        own = rows.filter(pl.col("device") == device)
        for from_ns, to_ns in own.select("start_ns", "end_ns").iter_rows():
            if from_ns - at >= max(1, min_gap_ns):
                gaps.append({"device": device, "start_ns": at, "end_ns": from_ns})
            at = min(to_ns, end)
        if end - at >= max(1, min_gap_ns):
            gaps.append({"device": device, "start_ns": at, "end_ns": end})
    return gaps
