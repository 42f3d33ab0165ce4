"""Starts as soon as one dependency allows it."""

from __future__ import annotations

from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_replay_by_hand"
SAYS = "the latest of its dependencies"


def replay_end(operations: list[Operation]) -> int:
    starts: list[int] = []
    ends: list[int] = []
    device_ends = []
    for operation in operations:
        start = operation.start_ns
        if operation.after:
            start = operation.delay_ns + min(
                (starts if d.at == "start" else ends)[d.on] + d.lag_ns for d in operation.after
            )
        starts.append(start)
        ends.append(start + operation.duration_ns)
        if operation.device >= 0:
            device_ends.append(ends[-1])
    if not device_ends:
        raise ValueError("there is no device operation to replay")
    return max(device_ends)
