"""Takes the time from the call to the start, in line behind its own stream included."""

from __future__ import annotations

import statistics

from profiling_lab import captures

CAUGHT_BY = "test_recorded_delays"
SAYS = "is in line, not ready"


def start_delays(capture: str, device: int = 0) -> dict[int, dict[str, float]]:
    calls = {
        c["correlation"]: c["end_ns"] for c in captures.open(capture).api_calls.rows(named=True)
    }
    delays: dict[int, list[int]] = {}
    for operation in _issued(capture, device):
        if operation.is_kernel:
            delay = max(0, operation.start_ns - calls[operation.key[1]])
            delays.setdefault(operation.stream, []).append(delay)
    return {
        stream: {
            "kernels_count": len(found),
            "median_ns": statistics.median(found),
            "worst_ns": max(found),
        }
        for stream, found in delays.items()
    }
