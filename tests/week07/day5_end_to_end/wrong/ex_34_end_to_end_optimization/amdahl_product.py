"""Multiplies the bounds of single parts."""

from __future__ import annotations

import math

CAUGHT_BY = "test_bounds_of_drawn_parts"
SAYS = "do not multiply"


def amdahl_bound(parts_ns: dict[str, float], faster: dict[str, float]) -> float:
    if not all(0 <= time < math.inf for time in parts_ns.values()) or not any(parts_ns.values()):
        raise ValueError("parts_ns must be finite times of 0 or more, and not all of them 0")
    for part, factor in faster.items():
        if part not in parts_ns:
            raise ValueError(f"unknown part {part!r}; known: {', '.join(parts_ns)}")
        if not factor > 0:
            raise ValueError(f"{part}: a factor must be above 0, got {factor}")
    whole, bound = sum(parts_ns.values()), 1.0
    for part, factor in faster.items():
        rest = whole - parts_ns[part] + parts_ns[part] / factor
        bound = bound * whole / rest if rest > 0 else math.inf
    return bound
