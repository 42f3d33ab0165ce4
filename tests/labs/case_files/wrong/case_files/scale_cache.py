"""Takes the cache that DRAM's data passes through for the limit."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_scale"
SAYS = "they pass on"


def verdict_scale() -> dict[str, object]:
    return {
        "category": "cache_bound",
        "subject": "kernel:scale",
        "evidence": {"cache_pct": 88.6},
        "recommendation": "tile_in_shared",
    }
