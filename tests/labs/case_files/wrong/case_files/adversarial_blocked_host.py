"""Blames a host that is blocked most of the time."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_adversarial"
SAYS = "no more than that would be saved"


def verdict_adversarial() -> dict[str, object]:
    return {
        "category": "sync_bound",
        "subject": "device:0",
        "evidence": {"waiting_ns": 77_500_435},
        "recommendation": "drop_waits",
    }
