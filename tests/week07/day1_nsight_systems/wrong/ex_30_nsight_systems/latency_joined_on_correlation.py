"""Joins kernels and calls on the correlation id alone."""

from __future__ import annotations

import numpy as np
import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_correlation_ids_start_anew_in_each_process"
SAYS = "starts anew in each process"


def launch_latency(capture: str) -> dict[str, np.ndarray]:
    with captures.open(capture) as recording:
        kernels = recording.kernels.filter(pl.col("graph_node").is_null())
        calls = recording.api_calls.select(
            "correlation",
            pl.col("duration_ns").alias("api_ns"),
            pl.col("end_ns").alias("returned_ns"),
        )
        joined = kernels.join(calls, on="correlation", how="inner", maintain_order="left_right")
    queue = (joined["start_ns"] - joined["returned_ns"]).clip(lower_bound=0)
    return {
        "kernel_start_ns": joined["start_ns"].to_numpy(),
        "api_ns": joined["api_ns"].to_numpy(),
        "queue_ns": queue.to_numpy(),
        "execution_ns": joined["duration_ns"].to_numpy(),
    }
