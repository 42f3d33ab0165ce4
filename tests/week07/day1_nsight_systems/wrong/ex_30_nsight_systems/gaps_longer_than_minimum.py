"""Leaves out the gaps that are exactly as long as the minimum."""

from __future__ import annotations

CAUGHT_BY = "test_shortest_gap_that_counts"
SAYS = "is at least that long"


def idle_gaps(
    capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
) -> list[dict[str, int]]:
    start, end = find_window(capture, nvtx_range)
    gaps = []
    for device, (starts, ends) in _busy_intervals(capture, start, end).items():
        edges = zip([start, *ends.tolist()], [*starts.tolist(), end], strict=True)
        gaps += [
            {"device": device, "start_ns": a, "end_ns": b} for a, b in edges if b - a > min_gap_ns
        ]
    return gaps
