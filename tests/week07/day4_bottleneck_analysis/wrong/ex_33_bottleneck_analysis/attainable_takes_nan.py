"""Compares NaN with 0 and lets it through."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_intensities_that_do_not_exist"
SAYS = "NaN is no intensity"


def attainable_rate(intensity: float, device: str, dtype: str) -> float:
    if intensity < 0:
        raise ValueError(f"intensity is {intensity!r}: operations per byte are never negative")
    found = devices.get(device)
    return min(found.peak(dtype), intensity * found.memory_bandwidth_bytes_per_s)
