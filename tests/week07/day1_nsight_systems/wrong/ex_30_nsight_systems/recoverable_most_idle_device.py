"""Bounds savings by the idle time of the device that has least to do."""

from __future__ import annotations

from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_least_idle_device_by_hand"
SAYS = "the device has as much to do"


def _least_idle_ns(capture: str, operations: list[Operation]) -> int:
    start = min(operation.start_ns for operation in operations)
    end = max(operation.end_ns for operation in operations)
    busy = _busy_intervals(capture, start, end)
    least = min(
        int((ends - starts).sum())
        for starts, ends in (busy[device] for device in {o.device for o in operations})
    )
    return end - start - least
