"""Counts launching calls, and not the framework's time between them."""

from __future__ import annotations

from dataclasses import replace

from profiling_lab import captures
from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_savings_of_launches_by_hand"
SAYS = "stretches of host code of at most"


def recoverable_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    with captures.open(capture) as recording:
        window = find_window(capture, nvtx_range) if nvtx_range is not None else None
        operations = read_dependencies(recording, window)
    recorded_end = replay_end(operations)

    def without(operation: Operation, cause: str) -> Operation:
        kind, waits_in = operation.kind, operation.waits_in
        transfer = kind == "copy" and operation.name in ("H2D", "D2H")
        short = operation.duration_ns <= DISPATCH_LIMIT_NS
        waited = tuple(d for d in operation.after if d.why != "wait")
        if cause == "waits" and waits_in == "synchronize":
            return replace(operation, after=waited)
        if cause == "launch_cost" and kind == "launch" and not operation.resumes:
            return replace(operation, duration_ns=0)
        if cause == "copies" and transfer:
            return replace(operation, duration_ns=0, delay_ns=0)
        if cause == "copies" and kind == "copy_call":
            return replace(operation, duration_ns=0)
        if cause == "copies" and waits_in == "copy_call":
            lags = [
                replace(d, lag_ns=min(d.lag_ns, 0)) if d.why == "wait" else d
                for d in operation.after
            ]
            return replace(operation, after=tuple(lags))
        if cause == "allocation" and kind == "allocation":
            return replace(operation, duration_ns=0)
        if cause == "allocation" and waits_in == "allocation":
            return replace(operation, after=waited)
        if cause == "host_code" and kind == "host_code" and not short:
            return replace(operation, duration_ns=0)
        return operation

    return {
        cause: max(0, recorded_end - replay_end([without(o, cause) for o in operations]))
        for cause in CATEGORY_OF_CAUSE
    }
