"""Believes that a host which does less gives the device less to do."""

from __future__ import annotations

from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_savings_on_a_busy_device_by_hand"
SAYS = "the device has as much to do"


def _least_idle_ns(capture: str, operations: list[Operation]) -> int:
    return max(o.end_ns for o in operations)
