from __future__ import annotations

CAUGHT_BY = "test_repeats_for_generated_samples"
SAYS = "68 %, not 95 %"


def repeats_needed(samples_ns: Sequence[float], half_width_ratio: float) -> int:
    _check(samples_ns, 2)
    if not half_width_ratio > 0:
        raise ValueError("the ratio must be above 0")
    wished = half_width_ratio * statistics.fmean(samples_ns)
    return max(2, math.ceil((statistics.stdev(samples_ns) / wished) ** 2))
