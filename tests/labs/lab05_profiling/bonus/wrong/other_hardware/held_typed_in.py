"""Returns the lesson's own numbers, whatever was measured."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_below_near_and_far_above"
SAYS = "floor_ns of"


def held_against(
    costs: dict[str, dict[str, int]], measured_ns: dict[str, float], dtype: str, device_name: str
) -> list[dict[str, Any]]:
    numbers = {"floor_ns": 1.0, "measured_ns": 2.0, "excess_ratio": 1.0, "verdict": "near"}
    return [{"part": part, **numbers} for part in [*costs, "sum"]]
