"""Sees an .item() after every token, and takes it for the cause."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_decoder"
SAYS = "does not follow"


def verdict_decoder() -> dict[str, object]:
    return {
        "category": "sync_bound",
        "subject": "device:0",
        "evidence": {"waiting_ns": 155_951},
        "recommendation": "drop_waits",
    }
