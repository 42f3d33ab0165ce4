"""Returns the lesson's own numbers, whatever the recording."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_differences_that_are_known"
SAYS = "the median over rounds"


def framework_verdict(capture: str, size: str, first: str, second: str) -> dict[str, Any]:
    numbers = {"speedup_ratio": 1.0, "low_ratio": 0.99, "high_ratio": 1.01}
    return {**numbers, "noise_ratio": 0.01, "error_ratio": 1.0, "verdict": "no difference"}
