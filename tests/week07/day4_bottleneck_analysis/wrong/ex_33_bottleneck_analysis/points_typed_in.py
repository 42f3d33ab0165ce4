"""Returns a row of the lesson."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_generated_counters"
SAYS = "rows, expected"


def roofline_points(capture: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "matmul bf16 8192x8192x8192",
            "flops": 1_099_511_627_776.0,
            "flops_source": "analytic",
            "dram_bytes": 1_383_535_792.0,
            "duration_ns": 1_397_856.0,
            "intensity": 794.711,
            "rate_flops_per_s": 7.866e14,
        }
    ]
