"""Returns the lesson's numbers."""

from __future__ import annotations

CAUGHT_BY = "test_balance_of_recorded_requests"
SAYS = "L is the time that requests spend in the system"


def littles_law(
    capture: str, run: str, window: tuple[int, int] | None = None
) -> dict[str, float | None]:
    return {
        "in_system_count": 1.2962517771875837,
        "rate_per_s": 200.67043993983899,
        "latency_ns": 6459605.0,
        "mismatch_ratio": 0.0,
    }
