"""Returns the lesson's list."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_holders_of_a_recording"
SAYS = "expected"


def held_at_peak(capture: str, device: int = 0) -> list[dict[str, Any]]:
    return [{"where": "torch_memory.py:39 weights", "bytes": 1811939328, "count": 27}]
