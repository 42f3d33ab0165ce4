"""Calls a device healthy because it is never idle."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_vision"
SAYS = "there is something to be found"


def verdict_vision() -> dict[str, object]:
    return {
        "category": "healthy",
        "subject": "device:0",
        "evidence": {"idle_ns": 1_450_202},
        "recommendation": "none",
    }
