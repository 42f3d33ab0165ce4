from __future__ import annotations

CAUGHT_BY = "test_throughput_of_drawn_steps"
SAYS = "counts short steps for more"


def throughput(step_ns: Sequence[float], batch: int, warmup_count: int) -> dict[str, float]:
    if batch < 1 or warmup_count < 0:
        raise ValueError("batch and warmup_count")
    steady = step_ns[warmup_count:]
    if len(steady) < 2 or not all(step > 0 for step in step_ns):
        raise ValueError("too few steps")
    mean = statistics.fmean(steady)
    half_width = Z_95 * statistics.stdev(steady) / math.sqrt(len(steady))
    if half_width >= mean:
        raise ValueError("too wide")
    return {
        "samples_per_s": statistics.fmean(1e9 * batch / step for step in steady),
        "low_per_s": 1e9 * batch / (mean + half_width),
        "high_per_s": 1e9 * batch / (mean - half_width),
    }
