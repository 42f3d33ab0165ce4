"""Returns a row of the lesson."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_made_counters"
SAYS = "a list of"


def kernel_counters(capture: str) -> list[dict[str, Any]]:
    return [{"name": "matmul_kernel", **dict.fromkeys(COUNTERS, 1.0)}]
