"""Adds up all calls that copy instead of the time in which nothing else ran."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_vision"
SAYS = "Measure it again"


def verdict_vision() -> dict[str, object]:
    return {
        "category": "transfer_bound",
        "subject": "device:0",
        "evidence": {"copy_alone_ns": 87_524_321},
        "recommendation": "copy_stream",
    }
