"""Returns the lesson's first requests."""

from __future__ import annotations

CAUGHT_BY = "test_tokens_of_recorded_requests"
SAYS = "entries; expected"


def token_metrics(capture: str, run: str) -> dict:
    return {
        "ttft_ns": [4381000, 4361000, 4222000],
        "inter_token_ns": [4560000, 4309000, 4202000],
        "tpot_ns": [4445073.1707317075, 4470638.29787234, 4457870.9677419355],
        "tokens_per_s": 1086.4969039389443,
    }
