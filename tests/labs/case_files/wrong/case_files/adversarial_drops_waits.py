"""Measures that little is to be gained, and drops the waits all the same."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_adversarial"
SAYS = "timed as well"


def verdict_adversarial() -> dict[str, object]:
    return {
        "category": "healthy",
        "subject": "device:0",
        "evidence": {"idle_ns": 8_690_572},
        "recommendation": "drop_waits",
    }
