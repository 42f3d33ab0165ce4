"""Returns the lesson's savings."""

from __future__ import annotations

CAUGHT_BY = "test_savings_of_a_recording"
SAYS = "ns earlier"


def recoverable_time(capture: str) -> dict[str, int]:
    return {
        "waits": 17018622,
        "launch_cost": 7283136,
        "copies": 0,
        "allocation": 0,
        "host_code": 35350961,
        "compilation": 0,
    }
