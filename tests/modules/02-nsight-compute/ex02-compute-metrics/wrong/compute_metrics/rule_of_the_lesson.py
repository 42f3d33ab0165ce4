# The names that the lesson found.
from __future__ import annotations

CAUGHT_BY = "test_rule_on_recorded_kernels"
SAYS = "names of kernels"


def occupancy_rule(
    kernels: Sequence[dict[str, Any]], good_ratio: float = 0.5
) -> dict[str, list[str]]:
    return {
        "kept": ["whole_waves"],
        "low_but_busy": ["few_warps_many_chains"],
        "high_but_idle": ["many_warps_one_load"],
    }
