"""Uses one number for all devices."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_where_the_roofs_meet"
SAYS = "no number holds for all of them"


def ridge_point(device: str, dtype: str) -> float:
    found = devices.get(device)
    return 20.0 if found.peak(dtype) else 5.0
