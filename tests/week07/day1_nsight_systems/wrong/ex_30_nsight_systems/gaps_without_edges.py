"""Forgets the time before the first operation and after the last."""

from __future__ import annotations

CAUGHT_BY = "test_gaps_at_the_edges_of_the_window"
SAYS = "after its last is idle too"


def idle_gaps(
    capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
) -> list[dict[str, int]]:
    start, end = find_window(capture, nvtx_range)
    gaps = []
    for device, (starts, ends) in _busy_intervals(capture, start, end).items():
        gaps += [
            {"device": device, "start_ns": a, "end_ns": b}
            for a, b in zip(ends[:-1].tolist(), starts[1:].tolist(), strict=True)
            if b - a >= max(1, min_gap_ns)
        ]
    return gaps
