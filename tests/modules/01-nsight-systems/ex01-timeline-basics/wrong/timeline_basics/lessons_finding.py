"""Returns the numbers of the lesson's recording."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_generated_finding"
SAYS = "evidence recoverable_ns is"


def read_timeline(capture: str, nvtx_range: str) -> Finding:
    evidence = {
        "recoverable_ns": 3854300,
        "window_ns": 12064089,
        "recoverable_ratio": 3854300 / 12064089,
        "idle_ns": 6795292,
        "first_iteration_excess_ns": 505627,
    }
    return Finding("allocation_bound", "device:0", evidence, "allocate before the loop")
