"""Says 1.0 where a metric is missing."""

from __future__ import annotations

CAUGHT_BY = "test_gain_with_a_metric_missing"
SAYS = "None, not 0"


def estimate_gain(kernel: dict[str, Any], cause: str) -> float | None:
    if cause not in CAUSES:
        raise ValueError(f"unknown cause {cause!r}; known: {', '.join(CAUSES)}")
    use: dict[str, Any] = unit_use(kernel)
    try:
        left = _left_without(kernel, use, cause)
    except TypeError:  # arithmetic with a metric that is missing
        return 1.0
    known = {unit: share for unit, share in use.items() if share is not None}
    if not known:
        return None
    if not left:
        return 1.0
    waiting = left.pop("waiting", 1.0)
    fullest = max(known, key=lambda unit: known[unit])
    if known[fullest] >= SATURATED_RATIO and fullest in left and fullest != "atomics":
        waiting = min(waiting, left[fullest])
    busy = 1.0
    if cause not in ("small_grid", "tail_effect"):
        busy = occupancy_gap(kernel)["busy_sm_ratio"] or 1.0
    needed = [waiting]
    for unit, share in known.items():
        own = share / busy if unit in ("l1", "issue", "pipe", "adu") else share
        needed.append(own * left.get(unit, 1.0) / ATTAINABLE_RATIO)
    return 1 / min(1.0, max(needed))
