"""Follows the blocks whose address is told, and takes the others for nothing."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_growth_of_longer_stretches"
SAYS = "growth_bytes"


def _staying_bytes(
    trace: dict[str, Any], steps: list[tuple[int, int, int]], device: int
) -> list[int] | None:
    events = [event for event in trace["memory"] if event["device"] == device]
    if all(event["address"] is None for event in events):
        return None
    alive: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["bytes"] > 0:
            alive[event["address"]] = event
        else:
            alive.pop(event["address"], None)
    return [
        sum(e["bytes"] for e in alive.values() if e["time_ns"] <= end)
        for _, _, end in steps
        if end >= events[0]["time_ns"]
    ]
