"""Returns the recorded end without playing anything."""

from __future__ import annotations

from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_replay_by_hand"
SAYS = "starts have to be computed anew"


def replay_end(operations: list[Operation]) -> int:
    ends = [operation.end_ns for operation in operations if operation.device >= 0]
    if not ends:
        raise ValueError("there is no device operation to replay")
    return max(ends)
