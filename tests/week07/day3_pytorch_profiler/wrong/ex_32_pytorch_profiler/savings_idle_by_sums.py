"""Adds up what a device did, and counts twice what it did at the same time."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_savings_on_a_busy_device"
SAYS = "more than a device was idle"


def _least_idle_ns(events: list[dict[str, Any]], window: tuple[int, int], devices: set[int]) -> int:
    start, end = window
    busy = dict.fromkeys(devices, 0)
    for event in events:
        if event["kind"] in DEVICE_KINDS and event["device"] in devices:
            busy[event["device"]] += max(
                0, min(event["end_ns"], end) - max(event["start_ns"], start)
            )
    return end - start - max(busy.values())
