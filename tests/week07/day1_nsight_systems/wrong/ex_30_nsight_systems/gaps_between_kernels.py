"""Calls a device idle while it copies."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_gaps_of_each_device"
SAYS = "Those are the gaps between kernels"


def idle_gaps(
    capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
) -> list[dict[str, int]]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        kernels = recording.kernels
        devices = sorted(recording.device_operations["device"].unique().to_list())
    gaps = []
    for device in devices:
        starts, ends = _merge(kernels.filter(pl.col("device") == device), start, end)
        edges = zip([start, *ends.tolist()], [*starts.tolist(), end], strict=True)
        gaps += [
            {"device": device, "start_ns": a, "end_ns": b}
            for a, b in edges
            if b - a >= max(1, min_gap_ns)
        ]
    return gaps
