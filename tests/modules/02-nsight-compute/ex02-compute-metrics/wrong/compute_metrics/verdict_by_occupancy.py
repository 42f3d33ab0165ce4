# Low occupancy is bad, high occupancy is good.
from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_recorded_kernels"
SAYS = "but the evidence contradicts"


def compute_verdict(kernel: dict[str, Any]) -> Finding:
    compute = _metric(kernel, COMPUTE_METRIC) / 100
    memory = _metric(kernel, MEMORY_METRIC) / 100
    slots = warp_slots(kernel)
    filled = slots["filled_ratio"]
    margins = [abs(max(compute, memory) - BUSY_RATIO)]
    lost = 0.0
    low = _metric(kernel, "sm__warps_active.avg.pct_of_peak_sustained_active") < 50
    if max(compute, memory) < BUSY_RATIO:
        busy = _metric(kernel, "sm__cycles_active.avg") / _metric(kernel, "sm__cycles_elapsed.avg")
        lost = 1 - busy
        margins.append(abs(compute / busy - BUSY_RATIO))
        if compute / busy < BUSY_RATIO:
            lost = max(slots[key] for key in ("limit_ratio", "idle_ratio", "gap_ratio"))
            margins.append(abs(lost - filled))
    elif compute >= memory:
        lost = compute * (1 - scheduler_view(kernel)["lanes_count"] / WARP_THREADS)
        margins.append(abs(lost - FLOOR_RATIO))
    return Finding(
        "low_occupancy" if low else "latency_bound",
        f"kernel:{kernel['name']}",
        {
            "duration_ns": _metric(kernel, "gpu__time_duration.sum"),
            "compute_ratio": compute,
            "memory_ratio": memory,
            "lost_ratio": lost,
            "filled_ratio": filled,
            "margin_ratio": min(margins),
        },
        "have more warps",
    )
