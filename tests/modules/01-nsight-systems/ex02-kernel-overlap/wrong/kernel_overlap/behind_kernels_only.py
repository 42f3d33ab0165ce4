"""Looks at kernels only: a kernel behind a copy of its own stream seems delayed."""

from __future__ import annotations

import statistics

from profiling_lab import captures

CAUGHT_BY = "test_in_line_is_not_delayed"
SAYS = "only the time after that is delay"


def start_delays(capture: str, device: int = 0) -> dict[int, dict[str, float]]:
    delays: dict[int, list[int]] = {}
    ends: dict[int, int] = {}
    calls = {
        c["correlation"]: c["end_ns"] for c in captures.open(capture).api_calls.rows(named=True)
    }
    for operation in _issued(capture, device):
        if operation.is_kernel:
            ready = max(calls[operation.key[1]], ends.get(operation.stream, 0))
            delays.setdefault(operation.stream, []).append(max(0, operation.start_ns - ready))
            ends[operation.stream] = max(ends.get(operation.stream, 0), operation.end_ns)
    return {
        stream: {
            "kernels_count": len(found),
            "median_ns": statistics.median(found),
            "worst_ns": max(found),
        }
        for stream, found in delays.items()
    }
