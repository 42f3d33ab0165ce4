"""Lets the first launch after a wait cost nothing as well, as if a graph reached across the wait."""

from __future__ import annotations

from dataclasses import replace

from profiling_lab.captures.dependencies import Operation

CAUGHT_BY = "test_savings_of_what_follows_a_wait_by_hand"
SAYS = "has to be done however work is bundled"


def _mine(operation: Operation) -> Operation:
    dispatch = operation.kind == "host_code" and operation.duration_ns <= DISPATCH_LIMIT_NS
    issuing = dispatch or operation.kind == "launch"
    return replace(operation, duration_ns=0) if issuing else operation


_CHANGES = {
    "waits": _without_waits,
    "launch_cost": _mine,
    "copies": _without_copies,
    "allocation": _without_allocation,
    "host_code": _without_host_code,
}
