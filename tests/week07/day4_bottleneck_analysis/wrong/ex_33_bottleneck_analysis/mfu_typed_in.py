"""Returns the rows of the lesson."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_generated_training"
SAYS = "rows, expected"


def model_flops_utilization(capture: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "batch 32",
            "model_flops": 41_231_686_041_600,
            "rate_flops_per_s": 4.456e14,
            "mfu_ratio": 0.4506,
            "hfu_ratio": 0.4506,
        }
    ]
