"""Returns a row of the lesson."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_made_resources"
SAYS = "expected a list of"


def kernel_resources(capture: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "1024 w4",
            "program_threads": 128,
            "registers_count": 32,
            "spilled_bytes": 0,
            "shared_bytes": 0,
            "sm_programs_count": 16,
            "occupancy_ratio": 1.0,
        }
    ]
