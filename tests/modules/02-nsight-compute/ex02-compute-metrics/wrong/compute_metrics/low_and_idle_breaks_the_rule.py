# A kernel with few warps that gets little out of the device is what the rule foretells.
from __future__ import annotations

CAUGHT_BY = "test_rule_on_recorded_kernels"
SAYS = "Low and idle obeys the rule"


def occupancy_rule(
    kernels: Sequence[dict[str, Any]], good_ratio: float = 0.5
) -> dict[str, list[str]]:
    if not 0 <= good_ratio <= 1:
        raise ValueError(f"good_ratio is a share from 0 to 1, got {good_ratio}")
    out: dict[str, list[str]] = {"kept": [], "low_but_busy": [], "high_but_idle": []}
    for kernel in kernels:
        occupancy = _metric(kernel, "sm__warps_active.avg.pct_of_peak_sustained_active") / 100
        used = max(_metric(kernel, COMPUTE_METRIC), _metric(kernel, MEMORY_METRIC)) / 100
        high, busy = occupancy >= good_ratio, used >= BUSY_RATIO
        key = "kept" if high and busy else "high_but_idle" if high else "low_but_busy"
        out[key].append(kernel["name"])
    return out
