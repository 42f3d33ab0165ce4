"""Takes the durations of the ranges on the host for the times of the iterations."""

from __future__ import annotations

import statistics

from profiling_lab import captures
from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_iterations_of_an_asynchronous_program"
SAYS = "a range closes when work is issued"


def first_iteration_cost(capture: str, nvtx_range: str) -> dict[str, float]:
    ranges = captures.open(capture).nvtx_ranges.rows(named=True)
    iterations = [r for r in ranges if r["name"] == nvtx_range]
    if not iterations:
        raise CaptureError(f"{capture}: no NVTX range is called {nvtx_range!r}")
    if len(iterations) < 3:
        raise ValueError(f"{len(iterations)} iterations")
    first, *others = [r["duration_ns"] for r in iterations]
    steady = statistics.median(others)
    return {
        "first_ns": first,
        "steady_ns": steady,
        "excess_ns": first - steady,
        "steady_start_ns": iterations[0]["end_ns"],
    }
