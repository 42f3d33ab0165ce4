"""Lets a fix take a unit beyond its ceiling."""

from __future__ import annotations

CAUGHT_BY = "test_gains_of_recorded_kernels"
SAYS = "Unit use"


def estimate_gain(kernel: dict[str, Any], cause: str) -> float | None:
    if cause not in CAUSES:
        raise ValueError(f"unknown cause {cause!r}; known: {', '.join(CAUSES)}")
    use = unit_use(kernel)
    try:
        left = _left_without(kernel, use, cause)
    except TypeError:  # arithmetic with a metric that is missing
        return None
    waiting = left.pop("waiting", 1.0)
    fullest = max(
        (unit for unit in use if use[unit] is not None), key=lambda u: use[u], default=None
    )
    if fullest is None:
        return None
    if use[fullest] >= SATURATED_RATIO:
        waiting = min(waiting, left.get(fullest, 1.0))
    return 1 / max(waiting, 1e-3)
