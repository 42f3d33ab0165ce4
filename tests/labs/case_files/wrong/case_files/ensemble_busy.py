"""Sees four busy streams, and calls that healthy."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_ensemble"
SAYS = "there is something to be found"


def verdict_ensemble() -> dict[str, object]:
    return {
        "category": "healthy",
        "subject": "device:0",
        "evidence": {"idle_ns": 1_888_384},
        "recommendation": "none",
    }
