"""Leaves out what happens at the very end of a step."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_growth_of_memory_that_shrinks"
SAYS = "step_end_bytes"


def _step_end_bytes(
    trace: dict[str, Any], steps: list[tuple[int, int, int]], device: int
) -> list[Any]:
    events = [event for event in trace["memory"] if event["device"] == device]
    before = [[e for e in events if e["time_ns"] < end] for _, _, end in steps]
    return [past[-1]["allocated_bytes"] for past in before if past]
