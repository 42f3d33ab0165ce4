"""Finds the cause, and mends what is conspicuous."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_decoder"
SAYS = "all waits together take"


def verdict_decoder() -> dict[str, object]:
    return {
        "category": "launch_bound",
        "subject": "device:0",
        "evidence": {"launching_ns": 5_680_052},
        "recommendation": "drop_waits",
    }
