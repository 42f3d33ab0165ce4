"""Lets a fix take a unit beyond its ceiling."""

from __future__ import annotations

CAUGHT_BY = "test_gains_of_recorded_kernels"
SAYS = "Unit use"


def estimate_gain(kernel: dict[str, Any], cause: str) -> float | None:
    if cause not in CAUSES:
        raise ValueError(f"unknown cause {cause!r}; known: {', '.join(CAUSES)}")
    use: dict[str, Any] = unit_use(kernel)
    try:
        left = _left_without(kernel, use, cause)
    except TypeError:  # arithmetic with a metric that is missing
        return None
    known = {unit: share for unit, share in use.items() if share is not None}
    if not known:
        return None
    if not left:
        return 1.0
    waiting = left.pop("waiting", 1.0)
    fullest = max(known, key=lambda unit: known[unit])
    if known[fullest] >= SATURATED_RATIO and fullest in left and fullest != "atomics":
        waiting = min(waiting, left[fullest])
    return 1 / max(waiting, 1e-3)
