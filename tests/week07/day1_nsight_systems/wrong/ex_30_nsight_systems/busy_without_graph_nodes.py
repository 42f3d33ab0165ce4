"""Leaves the nodes of graphs out, also where no whole graphs were recorded."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_kernels_inside_graphs_keep_a_device_busy"
SAYS = "as nodes of a graph are missing"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        kernels = recording.kernels.filter(pl.col("graph_node").is_null())
        parts = [kernels, recording.graph_launches, recording.copies, recording.memsets]
    rows = pl.concat([part.select("start_ns", "end_ns", "device") for part in parts])
    return {
        device: _union_ns(rows.filter(pl.col("device") == device), start, end)
        for device in sorted(rows["device"].unique().to_list())
    }
