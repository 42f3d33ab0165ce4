"""Looks at the stream with the most operations only."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_what_runs_at_the_same_time_counts_once"
SAYS = "That is one stream of each device"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    out = {}
    for device in sorted(rows["device"].unique().to_list()):
        own = rows.filter(pl.col("device") == device)
        counts = dict(own.group_by("stream").len().iter_rows())
        main = max(counts, key=lambda stream: (counts[stream], -stream))
        out[device] = _union_ns(own.filter(pl.col("stream") == main), start, end)
    return out
