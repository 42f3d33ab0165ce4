# Achieved occupancy taken for the whole duration.
from __future__ import annotations

CAUGHT_BY = "test_slots_of_recorded_kernels"
SAYS = "An SM without a block has places, too"


def warp_slots(kernel: dict[str, Any]) -> dict[str, Any]:
    theoretical = _metric(kernel, "sm__maximum_warps_per_active_cycle_pct") / 100
    achieved = _metric(kernel, "sm__warps_active.avg.pct_of_peak_sustained_active") / 100
    _metric(kernel, "sm__cycles_active.avg")
    _metric(kernel, "sm__cycles_elapsed.avg")
    limits = {name: _metric(kernel, f"launch__occupancy_limit_{name}") for name in OCCUPANCY_LIMITS}
    fewest = min(limits.values())
    return {
        "limit_ratio": 1 - theoretical,
        "idle_ratio": 0.0,
        "gap_ratio": theoretical - achieved,
        "filled_ratio": achieved,
        "limited_by": [name for name in limits if limits[name] == fewest]
        if theoretical < 1
        else [],
    }
