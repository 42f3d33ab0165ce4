"""Counts compiling as the program's own code."""

from __future__ import annotations

from typing import Any

from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_savings_of_a_program"
SAYS = "only as long as compilations overlap"


def recoverable_time(capture: str) -> dict[str, int]:
    events = _trace(capture)["events"]
    operations = kineto.operations(events, _window(events, capture))
    compiling: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["kind"] == "operator" and event["name"] == COMPILATION:
            compiling[f"thread:{event['thread']}"].append(event)

    def own_code(operation: Operation) -> bool:
        return operation.kind == "host_code" and operation.duration_ns > DISPATCH_LIMIT_NS

    def compiled_ns(operation: Operation) -> int:
        return _union_ns(compiling[operation.where], operation.start_ns, operation.end_ns)

    def without_waits(operation: Operation) -> Operation:
        if operation.waits_in not in ("synchronize", "copy_call"):
            return operation
        return replace(operation, after=tuple(d for d in operation.after if d.why != "wait"))

    def without_launch_cost(operation: Operation) -> Operation:
        dispatch = operation.kind == "host_code" and not own_code(operation)
        return (
            replace(operation, duration_ns=0)
            if (dispatch or operation.kind == "launch") and not operation.resumes
            else operation
        )

    def without_host_code(operation: Operation) -> Operation:
        if not own_code(operation):
            return operation
        return replace(operation, duration_ns=0)

    def without_compilation(operation: Operation) -> Operation:
        if not own_code(operation):
            return operation
        return replace(operation, duration_ns=operation.duration_ns - compiled_ns(operation))

    changes = {
        "waits": without_waits,
        "launch_cost": without_launch_cost,
        "copies": _without_copies,
        "allocation": _without_allocation,
        "host_code": without_host_code,
        "compilation": without_compilation,
    }
    recorded_end = replay_end(operations)
    saved = {
        cause: recorded_end - replay_end([change(o) for o in operations])
        for cause, change in changes.items()
    }
    saved["copies"] = min(saved["copies"], recorded_end - _least_end(operations))
    return {cause: max(0, ns) for cause, ns in saved.items()}
