"""Passes over a part that is not there."""

from __future__ import annotations

import math

CAUGHT_BY = "test_bounds_of_bad_input"
SAYS = "there is no part of that name"


def amdahl_bound(parts_ns: dict[str, float], faster: dict[str, float]) -> float:
    if not all(0 <= time < math.inf for time in parts_ns.values()) or not any(parts_ns.values()):
        raise ValueError("parts_ns must be finite times of 0 or more, and not all of them 0")
    for part, factor in faster.items():
        if not factor > 0:
            raise ValueError(f"{part}: a factor must be above 0, got {factor}")
    after = sum(time / faster.get(part, 1) for part, time in parts_ns.items())
    return sum(parts_ns.values()) / after if after > 0 else math.inf
