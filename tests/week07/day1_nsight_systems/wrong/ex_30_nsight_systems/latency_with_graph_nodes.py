"""Counts every kernel of a graph as launched by the graph's call."""

from __future__ import annotations

import numpy as np
import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_nodes_of_a_graph_are_left_out"
SAYS = "one call launched them all"


def launch_latency(capture: str) -> dict[str, np.ndarray]:
    with captures.open(capture) as recording:
        kernels = recording.kernels
        calls = recording.api_calls.select(
            "process",
            "correlation",
            pl.col("duration_ns").alias("api_ns"),
            pl.col("end_ns").alias("returned_ns"),
        )
        joined = kernels.join(
            calls, on=["process", "correlation"], how="inner", maintain_order="left"
        )
    queue = (joined["start_ns"] - joined["returned_ns"]).clip(lower_bound=0)
    return {
        "kernel_start_ns": joined["start_ns"].to_numpy(),
        "api_ns": joined["api_ns"].to_numpy(),
        "queue_ns": queue.to_numpy(),
        "execution_ns": joined["duration_ns"].to_numpy(),
    }
