"""Blames the program's code for the long pauses."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_speech"
SAYS = "does not run in it"


def verdict_speech() -> dict[str, object]:
    return {
        "category": "host_bound",
        "subject": "device:0",
        "evidence": {"longest_gap_ns": 531_604_795},
        "recommendation": "loader_workers",
    }
