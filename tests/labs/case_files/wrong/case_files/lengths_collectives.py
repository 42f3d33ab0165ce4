"""Blames the collectives in which one rank spins."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_lengths"
SAYS = "it is the same exchange"


def verdict_lengths() -> dict[str, object]:
    return {
        "category": "communication_bound",
        "subject": "rank:0",
        "evidence": {"collective_alone_ns": 68_745_882},
        "recommendation": "overlap_gradients",
    }
