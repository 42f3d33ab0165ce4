"""Leaves the nodes of graphs out, also where no whole graphs were recorded."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures
from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_kernels_longer_than_the_window_and_inside_graphs"
SAYS = "as nodes of a graph"


def busy_against_active(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, float]]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        samples = recording.gpu_metrics.filter(
            (pl.col("timestamp_ns") > start) & (pl.col("timestamp_ns") <= end)
        )
        operations = recording.device_operations
    if samples.is_empty():
        raise CaptureError(
            f"{capture}: no GPU metrics in the window; record with --gpu-metrics-devices=all"
        )
    with captures.open(capture) as recording:
        compute = pl.concat(
            [
                f.select("start_ns", "end_ns", "device")
                for f in (
                    recording.kernels.filter(pl.col("graph_node").is_null()),
                    recording.graph_launches,
                )
            ]
        )
    out = {}
    for device in sorted(samples["device"].unique().to_list()):
        here = pl.col("device") == device
        means = dict(
            samples.filter(here).group_by("metric").agg(pl.col("value").mean()).iter_rows()
        )
        out[device] = {
            "busy_ratio": _union_ns(compute.filter(here), start, end) / (end - start),
            "sm_active_ratio": means["SMs Active [Throughput %]"] / 100,
            "dram_ratio": (
                means["DRAM Read Bandwidth [Throughput %]"]
                + means["DRAM Write Bandwidth [Throughput %]"]
            )
            / 100,
        }
    return out
