"""Averages reading and writing, which share the memory."""

from __future__ import annotations

import polars as pl

from profiling_lab import captures
from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_busy_device_with_idle_sms"
SAYS = "they are to be added"


def busy_against_active(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, float]]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        samples = recording.gpu_metrics.filter(
            (pl.col("timestamp_ns") > start) & (pl.col("timestamp_ns") <= end)
        )
        operations = recording.device_operations.filter(pl.col("kind").is_in(["kernel", "graph"]))
    if samples.is_empty():
        raise CaptureError(f"{capture}: no samples; record with --gpu-metrics-devices=all")
    out = {}
    for device in sorted(samples["device"].unique().to_list()):
        here = pl.col("device") == device
        means = dict(
            samples.filter(here).group_by("metric").agg(pl.col("value").mean()).iter_rows()
        )
        dram = (
            means["DRAM Read Bandwidth [Throughput %]"]
            + means["DRAM Write Bandwidth [Throughput %]"]
        )
        out[device] = {
            "busy_ratio": _union_ns(operations.filter(here), start, end) / (end - start),
            "sm_active_ratio": means["SMs Active [Throughput %]"] / 100,
            "dram_ratio": dram / 200,
        }
    return out
