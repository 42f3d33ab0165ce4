"""Mends a kernel at its ceiling."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_scale"
SAYS = "arrays of float4"


def verdict_scale() -> dict[str, object]:
    return {
        "category": "memory_bound",
        "subject": "kernel:scale",
        "evidence": {"dram_pct": 81.4},
        "recommendation": "vector_loads",
    }
