"""Returns a row of the lesson."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_generated_against_predicted"
SAYS = "rows, expected"


def prediction_error(capture: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "matmul bf16 8192x8192x8192",
            "predicted_ns": 1_111_741.0,
            "measured_ns": 1_402_400.0,
            "error_ratio": 0.26,
            "verdict": "holds",
        }
    ]
