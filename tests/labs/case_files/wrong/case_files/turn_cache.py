"""Takes the busy cache for the limit."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_turn"
SAYS = "whether what keeps"


def verdict_turn() -> dict[str, object]:
    return {
        "category": "cache_bound",
        "subject": "kernel:turn_by_rows",
        "evidence": {"cache_pct": 80.4},
        "recommendation": "vector_loads",
    }
