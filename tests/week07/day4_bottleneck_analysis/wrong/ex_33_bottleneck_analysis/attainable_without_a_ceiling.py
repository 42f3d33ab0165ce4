"""Forgets the flat roof."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_the_lower_roof_counts"
SAYS = "than the peak rate allows"


def attainable_rate(intensity: float, device: str, dtype: str) -> float:
    if not intensity >= 0:
        raise ValueError(f"intensity is {intensity!r}: operations per byte are never negative")
    found = devices.get(device)
    return found.peak(dtype) and intensity * found.memory_bandwidth_bytes_per_s
