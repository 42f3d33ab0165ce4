"""Divides by all of the time that passed: idle time becomes part of the concurrency."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

CAUGHT_BY = "test_recorded_concurrency"
SAYS = "idle time is not in it"


def concurrency(capture: str, device: int = 0) -> dict[str, Any]:
    kernels = _kernels(capture, device)
    ns_at_count: dict[int, int] = {}
    running = 0
    changes = sorted([(k.start_ns, 1) for k in kernels] + [(k.end_ns, -1) for k in kernels])
    for (moment, change), (following, _) in pairwise(changes):
        running += change
        if running and following > moment:
            ns_at_count[running] = ns_at_count.get(running, 0) + following - moment
    kernel_ns = sum(k.end_ns - k.start_ns for k in kernels)
    window_ns = max(k.end_ns for k in kernels) - min(k.start_ns for k in kernels)
    return {
        "kernel_ns": kernel_ns,
        "busy_ns": sum(ns_at_count.values()),
        "average_count": kernel_ns / window_ns,
        "peak_count": max(ns_at_count),
        "ns_at_count": ns_at_count,
    }
