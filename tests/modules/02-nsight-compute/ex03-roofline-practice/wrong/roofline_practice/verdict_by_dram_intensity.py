# Left of DRAM's ridge memory-bound, right of it compute-bound, and nothing else.
from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_recorded_kernels"
SAYS = "but the evidence contradicts"


def roofline_verdict(kernel: dict[str, Any]) -> Finding:
    point, roofs = under_the_roofs(kernel), roofs_of(kernel)
    compute = _metric(kernel, COMPUTE_METRIC) / 100
    memory = _metric(kernel, MEMORY_METRIC) / 100
    reached, unseen = point["reached_ratio"], max(compute, memory)
    margins = [abs(reached - BUSY_RATIO)]
    if reached < BUSY_RATIO:
        margins.append(abs(unseen - BUSY_RATIO))
        if unseen >= BUSY_RATIO:
            margins.append(abs(compute - memory))
    intensity = point["intensity"]["dram"] or 0.0
    ridge = ridge_points(roofs)[point["dtype"]]["dram"]
    category = "memory_bound" if intensity < ridge else "compute_bound"
    advice = _RECOMMENDATIONS[category]
    return Finding(
        category,
        f"kernel:{kernel['name']}",
        {
            "duration_ns": _metric(kernel, DURATION),
            "reached_ratio": reached,
            "unseen_ratio": unseen,
            "dram_intensity_ratio": intensity,
            "dram_ridge_ratio": ridge,
            "free_count": forecast(kernel, [])["free_flops"],
            "margin_ratio": min(margins),
        },
        f"borderline: {advice}" if min(margins) <= BORDERLINE_RATIO else advice,
    )
