"""Whether a device's clock was held down while it worked, from sampled metrics.

Launches alike (same kernel, grid and block) take longer at a lower clock. Those at the highest clock of their group
are the reference; the others lost what they took longer, but no more than the clock accounts for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profiling_lab.captures import NsysCapture

CLOCK = "GPC Clock Frequency [MHz]"
CLOCK_FLOOR_RATIO = 0.02  # clocks this close to the highest are at it
REFERENCE_LAUNCHES = 5  # at the highest clock, for their median to be known
_LIKE = ("demangled_name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def judge(capture: NsysCapture) -> list[tuple[str, int, int, dict[str, float]]]:
    """("throttled", device, ns lost, evidence) for each device whose clock was sampled and that lost time."""
    import polars as pl

    samples = capture.gpu_metrics
    if not samples.height:
        return []
    clock = samples.filter(pl.col("metric") == CLOCK).select(
        "device", time="timestamp_ns", clock="value"
    )
    if not clock.height:
        return []
    launches = (
        capture.kernels.with_columns(time=(pl.col("start_ns") + pl.col("end_ns")) // 2)
        .sort("time")
        # A sample speaks of the time before it.
        .join_asof(
            clock.sort("time"), on="time", by="device", strategy="forward", check_sortedness=False
        )
        .filter(pl.col("clock").is_not_null())
    )
    group = ["device", *_LIKE]
    at_top = pl.col("clock") >= (1 - CLOCK_FLOOR_RATIO) * pl.col("clock").max().over(group)
    judged = (
        launches.with_columns(top=at_top, highest=pl.col("clock").max().over(group))
        .with_columns(
            count=pl.col("top").sum().over(group),
            usual=pl.when("top").then("duration_ns").median().over(group),
        )
        .filter(pl.col("count") >= REFERENCE_LAUNCHES)
        .with_columns(
            lost=pl.when(~pl.col("top"))
            .then(
                pl.min_horizontal(
                    pl.col("duration_ns") - pl.col("usual"),
                    pl.col("duration_ns") * (1 - pl.col("clock") / pl.col("highest")),
                ).clip(0)
            )
            .otherwise(0.0),
            weighted=pl.col("duration_ns") * pl.col("clock") / pl.col("highest"),
        )
    )
    out = []
    for device, lost, weighted, worked in (
        judged.group_by("device", maintain_order=True)
        .agg(pl.col("lost").sum(), pl.col("weighted").sum(), pl.col("duration_ns").sum())
        .iter_rows()
    ):
        if lost > 0:
            out.append(("throttled", int(device), round(lost), {"clock_ratio": weighted / worked}))
    return out
