"""Returns the lesson's break."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_breaks_of_a_recording"
SAYS = "expected"


def graph_breaks(capture: str) -> list[dict[str, Any]]:
    return [{"from_frame": 0, "to_frame": 1, "count": 3, "where": "torch_compiled.py:49 forward"}]
