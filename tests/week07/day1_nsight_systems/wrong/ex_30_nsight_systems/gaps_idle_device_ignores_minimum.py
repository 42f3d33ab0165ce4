"""Lists an idle device's gap however short the window."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_gaps_at_the_edges_of_the_window"
SAYS = "should not be there"


def idle_gaps(
    capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
) -> list[dict[str, int]]:
    if min_gap_ns < 0:
        raise ValueError(f"min_gap_ns must not be negative, got {min_gap_ns}")
    start, end = find_window(capture, nvtx_range)
    gaps = []
    for device, (starts, ends) in _busy_intervals(capture, start, end).items():
        gap_starts = np.concatenate([[start], ends])
        gap_ends = np.concatenate([starts, [end]])
        if not len(starts):
            gaps.append({"device": device, "start_ns": start, "end_ns": end})
            continue
        keep = gap_ends - gap_starts >= max(min_gap_ns, 1)
        gaps += [
            {"device": device, "start_ns": a, "end_ns": b}
            for a, b in zip(gap_starts[keep].tolist(), gap_ends[keep].tolist(), strict=True)
        ]
    return gaps
