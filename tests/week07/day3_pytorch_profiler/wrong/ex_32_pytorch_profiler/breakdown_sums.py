"""Adds durations up."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_breakdown_of_streams_and_devices"
SAYS = "Durations were added up"


def _union_ns(events: list[dict[str, Any]], start: int, end: int) -> int:
    total, reach = 0, start
    for event in events:
        first, last = max(event["start_ns"], start), min(event["end_ns"], end)
        if last > first:
            total += last - first
            reach = last
    return total
