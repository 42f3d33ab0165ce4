"""Fills SMs with blocks that the grid does not have."""

from __future__ import annotations

CAUGHT_BY = "test_gains_of_recorded_kernels"
SAYS = "if the grid has them"


def _without_low_occupancy(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    waves = kernel["metrics"].get("launch__waves_per_multiprocessor")
    return {"waiting": occupancy_gap(kernel)["theoretical_ratio"]}
