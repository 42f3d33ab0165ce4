"""Takes the float32 peak for all data types."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_where_the_roofs_meet"
SAYS = "That is the peak of float32"


def ridge_point(device: str, dtype: str) -> float:
    found = devices.get(device)
    return (found.peak(dtype) and found.peak("float32")) / found.memory_bandwidth_bytes_per_s
