"""Returns what the lesson says of `scale`."""

from __future__ import annotations

CAUGHT_BY = "test_gap_of_recorded_kernels"
SAYS = "A ratio is per cent over 100"


def occupancy_gap(kernel: dict[str, Any]) -> dict[str, float | None]:
    return {
        "theoretical_ratio": 1.0,
        "achieved_ratio": 0.78,
        "gap_ratio": 0.22,
        "busy_sm_ratio": 0.98,
        "resident_ratio": 0.76,
        "waves_ratio": 0.985,
    }
