from __future__ import annotations

CAUGHT_BY = "test_efficiency_of_drawn_steps"
SAYS = "they add as squares"


def scaling_efficiency(
    base_ns: Sequence[float], scaled_ns: Sequence[float], world_size: int, kind: str
) -> dict[str, float]:
    _kind(kind)
    if world_size < 2:
        raise ValueError("world_size")
    for steps in (base_ns, scaled_ns):
        if len(steps) < 2 or not all(step > 0 for step in steps):
            raise ValueError("steps")
    mean = statistics.fmean(scaled_ns)
    error = statistics.stdev(scaled_ns) / math.sqrt(len(scaled_ns)) / mean
    speedup = (world_size if kind == "weak" else 1) * statistics.fmean(base_ns) / mean
    reach, efficiency = math.exp(Z_95 * error), speedup / world_size
    return {
        "speedup_ratio": speedup,
        "efficiency_ratio": efficiency,
        "low_ratio": efficiency / reach,
        "high_ratio": efficiency * reach,
    }
