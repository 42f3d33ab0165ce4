"""Returns the lesson's growth."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_growth_of_a_recording"
SAYS = "expected"


def memory_growth(capture: str, device: int = 0) -> dict[str, Any]:
    return {
        "step_end_bytes": [1908087296, 2369641472, 2831195648, 3292749824],
        "growth_bytes": 461554176,
        "where": "torch_memory.py:39 weights",
        "where_bytes": 268435456,
    }
