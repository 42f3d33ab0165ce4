from __future__ import annotations

CAUGHT_BY = "test_efficiency_of_drawn_steps"
SAYS = "of weak scaling has"


def scaling_efficiency(
    base_ns: Sequence[float], scaled_ns: Sequence[float], world_size: int, kind: str
) -> dict[str, float]:
    _kind(kind)
    if world_size < 2:
        raise ValueError("world_size")
    relative = 0.0
    for steps in (base_ns, scaled_ns):
        if len(steps) < 2 or not all(step > 0 for step in steps):
            raise ValueError("steps")
        relative += statistics.variance(steps) / len(steps) / statistics.fmean(steps) ** 2
    speedup = statistics.fmean(base_ns) / statistics.fmean(scaled_ns)
    reach = math.exp(Z_95 * math.sqrt(relative))
    efficiency = speedup / world_size
    return {
        "speedup_ratio": speedup,
        "efficiency_ratio": efficiency,
        "low_ratio": efficiency / reach,
        "high_ratio": efficiency * reach,
    }
