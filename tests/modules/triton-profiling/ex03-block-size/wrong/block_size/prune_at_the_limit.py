"""Drops what has just the occupancy that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CAUGHT_BY = "test_what_is_left"
SAYS = "dropped"


def prune_configs(
    configs: Sequence[dict[str, Any]], compute_capability: str, least_occupancy_ratio: float
) -> dict[str, Any]:
    if not 0 <= least_occupancy_ratio <= 1:
        raise ValueError(f"least_occupancy_ratio must be 0 to 1, not {least_occupancy_ratio}")
    kept, dropped = [], {}
    for config in configs:
        threads = config["num_warps"] * WARP_THREADS
        if threads > MAX_BLOCK_THREADS:
            dropped[config["name"]] = "threads"
            continue
        (fit,) = occupancy_table(
            compute_capability, [threads], config["registers_count"], config["shared_bytes"]
        )
        nothing_fits = fit["blocks_count"] == 0
        if nothing_fits and "registers" in fit["limiters"]:
            dropped[config["name"]] = "registers"
        elif nothing_fits:
            dropped[config["name"]] = "shared"
        elif fit["occupancy_ratio"] <= least_occupancy_ratio:
            dropped[config["name"]] = "occupancy"
        else:
            kept.append(config["name"])
    return {"kept": kept, "dropped": dropped}
