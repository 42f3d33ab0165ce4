"""Knows some launching calls by name, and overlooks the others."""

from __future__ import annotations

import numpy as np
import polars as pl

from profiling_lab import captures

CAUGHT_BY = "test_whatever_call_launched_the_kernel"
SAYS = "describes"


def launch_latency(capture: str) -> dict[str, np.ndarray]:
    with captures.open(capture) as recording:
        kernels = recording.kernels.filter(pl.col("graph_node").is_null())
        calls = recording.api_calls.filter(
            pl.col("name").is_in(
                ["cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"]
            )
        ).select(
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
