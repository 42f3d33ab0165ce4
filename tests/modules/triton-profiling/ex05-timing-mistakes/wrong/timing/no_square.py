from __future__ import annotations

CAUGHT_BY = "test_repeats_for_a_recording"
SAYS = "square root of the count"


def repeats_needed(samples_ns: Sequence[float], half_width_ratio: float) -> int:
    _check(samples_ns, 2)
    if not half_width_ratio > 0:
        raise ValueError("the ratio must be above 0")
    wished = half_width_ratio * statistics.fmean(samples_ns)
    return max(2, math.ceil(Z_95 * statistics.stdev(samples_ns) / wished))
