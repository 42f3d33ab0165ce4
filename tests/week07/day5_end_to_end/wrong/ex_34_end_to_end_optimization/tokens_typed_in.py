"""Returns the lesson's first requests."""

from __future__ import annotations

CAUGHT_BY = "test_tokens_of_recorded_requests"
SAYS = "entries; expected"


def token_metrics(capture: str, run: str) -> dict:
    return {
        "ttft_ns": [1552000, 1469000, 1479000],
        "inter_token_ns": [768000, 661000, 643000],
        "tpot_ns": [664000.0, 708666.6666666666, 695000.0],
        "tokens_per_s": 118.29088350838309,
    }
