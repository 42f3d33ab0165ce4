"""Counts a start before an end at the same time: kernels that touch look concurrent."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

CAUGHT_BY = "test_kernels_that_touch"
SAYS = "peak_count is 3"


def concurrency(capture: str, device: int = 0) -> dict[str, Any]:
    kernels = _kernels(capture, device)
    ns_at_count: dict[int, int] = {}
    peak = running = 0
    changes = [(k.start_ns, -1) for k in kernels] + [(k.end_ns, 1) for k in kernels]
    for (moment, change), (following, _) in pairwise(sorted(changes)):
        running -= change
        peak = max(peak, running)
        if running and following > moment:
            ns_at_count[running] = ns_at_count.get(running, 0) + following - moment
    kernel_ns = sum(k.end_ns - k.start_ns for k in kernels)
    busy_ns = sum(ns_at_count.values())
    return {
        "kernel_ns": kernel_ns,
        "busy_ns": busy_ns,
        "average_count": kernel_ns / busy_ns,
        "peak_count": peak,
        "ns_at_count": ns_at_count,
    }
