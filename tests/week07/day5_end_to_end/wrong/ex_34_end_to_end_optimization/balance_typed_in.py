"""Returns the lesson's numbers."""

from __future__ import annotations

CAUGHT_BY = "test_balance_of_recorded_requests"
SAYS = "L is the time that requests spend in the system"


def littles_law(
    capture: str, run: str, window: tuple[int, int] | None = None
) -> dict[str, float | None]:
    return {
        "in_system_count": 2.680018155822118,
        "rate_per_s": 100.14242756760802,
        "latency_ns": 26762065.0,
        "mismatch_ratio": 0.0,
    }
