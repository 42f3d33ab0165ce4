"""Numbers the devices from 0 on."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_devices_keep_their_numbers"
SAYS = "should not be there"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations

    out = {}
    for device in range(rows["device"].n_unique()):
        own = rows.filter(pl.col("device") == device)
        out[device] = _union_ns(own, start, end)
    return out
