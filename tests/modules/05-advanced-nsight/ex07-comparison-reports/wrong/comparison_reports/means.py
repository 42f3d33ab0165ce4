from __future__ import annotations

CAUGHT_BY = "test_shift_of_drawn_samples"
SAYS = "one slow step moves a mean"


def shift(before_ns: Sequence[float], after_ns: Sequence[float]) -> dict[str, float]:
    m, n = len(before_ns), len(after_ns)
    if m < 4 or n < 4:
        raise ValueError("too few")
    moved = statistics.fmean(after_ns) - statistics.fmean(before_ns)
    error = math.sqrt(statistics.variance(before_ns) / m + statistics.variance(after_ns) / n)
    return {"shift_ns": moved, "low_ns": moved - Z_95 * error, "high_ns": moved + Z_95 * error}
