from __future__ import annotations

CAUGHT_BY = "test_throughput_of_drawn_steps"
SAYS = "behind the warm-up"


def throughput(step_ns: Sequence[float], batch: int, warmup_count: int) -> dict[str, float]:
    if batch < 1 or warmup_count < 0:
        raise ValueError("batch and warmup_count")
    if len(step_ns) - warmup_count < 2 or not all(step > 0 for step in step_ns):
        raise ValueError("too few steps")
    mean = statistics.fmean(step_ns)
    half_width = Z_95 * statistics.stdev(step_ns) / math.sqrt(len(step_ns))
    if half_width >= mean:
        half_width = mean / 2
    return {
        "samples_per_s": 1e9 * batch / mean,
        "low_per_s": 1e9 * batch / (mean + half_width),
        "high_per_s": 1e9 * batch / (mean - half_width),
    }
