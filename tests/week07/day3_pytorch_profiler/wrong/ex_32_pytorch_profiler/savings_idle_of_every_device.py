"""Bounds savings by a device that has nothing to do with the steps."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

CAUGHT_BY = "test_savings_on_a_busy_device"
SAYS = "more than a device was idle"


def _least_idle_ns(events: list[dict[str, Any]], window: tuple[int, int], devices: set[int]) -> int:
    start, end = window
    work: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["kind"] in DEVICE_KINDS:
            work[event["device"]].append(event)
    return end - start - max(_union_ns(own, start, end) for own in work.values())
