"""Lets a device that has nothing to do with the range bound its savings."""

from __future__ import annotations

from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_savings_inside_a_range_on_a_busy_device_by_hand"
SAYS = "expected 3,000 ns"


def _least_idle_ns(capture: str, operations: list[Operation]) -> int:
    start = min(operation.start_ns for operation in operations)
    end = max(operation.end_ns for operation in operations)
    busy = _busy_intervals(capture, start, end)
    return end - start - max(int((ends - starts).sum()) for starts, ends in busy.values())
