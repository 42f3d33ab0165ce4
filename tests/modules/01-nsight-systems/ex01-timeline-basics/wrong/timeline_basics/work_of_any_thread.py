"""Counts what any thread launches while the range is open."""

from __future__ import annotations

CAUGHT_BY = "test_iterations_of_an_asynchronous_program"
SAYS = "the last operation that it launched"


def first_iteration_cost(capture: str, nvtx_range: str) -> dict[str, float]:
    recording = captures.open(capture)
    iterations = [r for r in recording.nvtx_ranges.rows(named=True) if r["name"] == nvtx_range]
    if not iterations:
        raise CaptureError(f"{capture}: no NVTX range is called {nvtx_range!r}")
    if len(iterations) < 3:
        raise ValueError(f"{len(iterations)} iterations: three are needed for a first and a median")
    ends = [iterations[0]["start_ns"]] * len(iterations)
    for operation, call in _launched(capture):
        if call is None:
            continue
        for i, iteration in enumerate(iterations):
            if _holds(iteration, call["start_ns"]):
                ends[i] = max(ends[i], operation["end_ns"])
    over = list(accumulate(ends, max))
    first = over[0] - iterations[0]["start_ns"]
    steady = statistics.median(later - before for before, later in pairwise(over))
    return {
        "first_ns": first,
        "steady_ns": steady,
        "excess_ns": first - steady,
        "steady_start_ns": over[0],
    }
