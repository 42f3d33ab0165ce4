"""Accuses the rank that waits."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_lengths"
SAYS = "whom it waits for"


def verdict_lengths() -> dict[str, object]:
    return {
        "category": "rank_imbalance",
        "subject": "rank:0",
        "evidence": {"collective_gap_ns": 70_915_298},
        "recommendation": "balance_ranks",
    }
