"""Orders device numbers as text."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_gaps_of_devices_and_processes"
SAYS = "device 3 comes before device 10"


def idle_gaps(
    capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
) -> list[dict[str, int]]:
    if min_gap_ns < 0:
        raise ValueError("negative")
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    gaps = []
    for device in sorted(rows["device"].unique().to_list(), key=str):
        at = start
        own = rows.filter(
            (pl.col("device") == device) & (pl.col("end_ns") > start) & (pl.col("start_ns") < end)
        )
        for a, b in own.select("start_ns", "end_ns").iter_rows():
            if a - at >= max(1, min_gap_ns):
                gaps.append({"device": device, "start_ns": at, "end_ns": a})
            at = max(at, b)
        if end - at >= max(1, min_gap_ns):
            gaps.append({"device": device, "start_ns": at, "end_ns": end})
    return gaps
