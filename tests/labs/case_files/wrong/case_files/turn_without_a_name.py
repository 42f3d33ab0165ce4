"""Calls the kernel by its file."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_turn"
SAYS = "Take the name"


def verdict_turn() -> dict[str, object]:
    return {
        "category": "uncoalesced_access",
        "subject": "kernel:pictures",
        "evidence": {"used_pct": 22.2},
        "recommendation": "tile_in_shared",
    }
