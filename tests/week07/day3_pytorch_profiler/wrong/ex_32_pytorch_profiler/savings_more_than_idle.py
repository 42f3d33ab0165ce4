"""Believes that a host which does less gives the device less to do."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_savings_on_a_busy_device"
SAYS = "more than a device was idle"


def _least_idle_ns(events: list[dict[str, Any]], window: tuple[int, int], devices: set[int]) -> int:
    return window[1]
