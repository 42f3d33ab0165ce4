"""Lets every wait shrink with the queue at one slice of L2."""

from __future__ import annotations

CAUGHT_BY = "test_gain_where_one_slice_has_the_atomics"
SAYS = "if atomics are many"


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
    if known[fullest] >= SATURATED_RATIO and fullest in left:
        waiting = min(waiting, left[fullest])
    busy = 1.0
    if cause not in ("small_grid", "tail_effect"):
        busy = occupancy_gap(kernel)["busy_sm_ratio"] or 1.0
    needed = [waiting]
    for unit, share in known.items():
        own = share / busy if unit in ("l1", "issue", "pipe", "adu") else share
        needed.append(own * left.get(unit, 1.0) / ATTAINABLE_RATIO)
    return 1 / min(1.0, max(needed))
