# Takes the level that wastes most, though another one holds the kernel down.
from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_recorded_kernels"
SAYS = "the busiest level is used"


def memory_verdict(kernel: dict[str, Any]) -> Finding:
    use = {
        level: max(_metric(kernel, name) for name in names) / 100
        for level, names in LEVEL_METRICS.items()
    }
    flow = byte_flow(kernel)
    needed = _metric(kernel, "memory_l2_theoretical_sectors_global_ideal")
    excess = _metric(kernel, "memory_l2_theoretical_sectors_global") - needed
    spilled = _metric(kernel, "memory_l2_theoretical_sectors_local")
    ideal = needed * SECTOR_BYTES
    moved = {level: sum(way.get(f"{level}_bytes", 0) for way in flow.values()) for level in use}
    level = max(use, key=lambda one: (max(0.0, moved[one] - ideal), use[one]))
    wasted = use[level] * max(0.0, moved[level] - ideal) / moved[level] if moved[level] else 0.0
    margin = abs(wasted - WASTE_RATIO)
    if wasted >= WASTE_RATIO:
        category = "register_spills" if spilled > excess else "uncoalesced_access"
    else:
        category = LIMITER_OF_LEVEL[level] if use[level] >= BUSY_RATIO else "latency_bound"
        margin = min(margin, abs(use[level] - BUSY_RATIO))
    advice = _RECOMMENDATIONS.get(category, "none")
    return Finding(
        category,
        f"kernel:{kernel['name']}",
        {
            "duration_ns": _metric(kernel, "gpu__time_duration.sum"),
            "use_ratio": use[level],
            "moved_bytes": moved[level],
            "ideal_bytes": ideal,
            "wasted_ratio": wasted,
            "margin_ratio": margin,
        },
        f"borderline: {advice}" if margin <= BORDERLINE_RATIO else advice,
    )
