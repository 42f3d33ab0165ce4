"""Knows one launching call by name."""

from __future__ import annotations

from dataclasses import replace

from profiling_lab import captures
from profiling_lab.captures.dependencies import Operation
from profiling_lab.captures.dependencies import read as read_dependencies

CAUGHT_BY = "test_savings_of_other_launches_by_hand"
SAYS = "of a graph and of three kernels"


def _mine(operation: Operation) -> Operation:
    dispatch = operation.kind == "host_code" and operation.duration_ns <= DISPATCH_LIMIT_NS
    return (
        replace(operation, duration_ns=0)
        if (dispatch or operation.name == "cudaLaunchKernel") and not operation.resumes
        else operation
    )


def recoverable_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    with captures.open(capture) as recording:
        window = find_window(capture, nvtx_range) if nvtx_range is not None else None
        operations = read_dependencies(recording, window)
    recorded_end = replay_end(operations)
    saved = {
        cause: recorded_end - replay_end([change(operation) for operation in operations])
        for cause, change in {**_CHANGES, "launch_cost": _mine}.items()
    }
    device_operations = [operation for operation in operations if operation.device >= 0]
    copies: dict[int, dict[str, list[int]]] = {}
    for operation in filter(_is_transfer, device_operations):
        directions = copies.setdefault(operation.device, {"H2D": [], "D2H": []})
        directions[operation.name].append(operation.duration_ns)
    least_ns = max(
        (
            sum(copies[device][busiest]) + min(copies[device][other], default=0)
            for device in copies
            for busiest, other in (("H2D", "D2H"), ("D2H", "H2D"))
            if sum(copies[device][busiest]) >= sum(copies[device][other])
        ),
        default=0,
    )
    least_end = min(operation.start_ns for operation in device_operations) + least_ns
    idle_ns = _least_idle_ns(capture, device_operations)
    bound = dict.fromkeys(saved, idle_ns) | {"copies": recorded_end - least_end}
    return {cause: max(0, min(saved[cause], bound[cause])) for cause in CATEGORY_OF_CAUSE}
