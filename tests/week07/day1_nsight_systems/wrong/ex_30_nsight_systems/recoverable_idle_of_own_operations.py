"""Takes a device for idle while it works for somebody else."""

from __future__ import annotations

from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_savings_inside_a_range_on_a_busy_device_by_hand"
SAYS = "the device has as much to do"


def _least_idle_ns(capture: str, operations: list[Operation]) -> int:
    start = min(o.start_ns for o in operations)
    end = max(o.end_ns for o in operations)
    most = 0
    for device in {o.device for o in operations}:
        busy_ns, reach = 0, start
        for o in sorted(operations, key=lambda o: o.start_ns):
            if o.device == device and o.end_ns > reach:
                busy_ns += o.end_ns - max(o.start_ns, reach)
                reach = o.end_ns
        most = max(most, busy_ns)
    return end - start - most
