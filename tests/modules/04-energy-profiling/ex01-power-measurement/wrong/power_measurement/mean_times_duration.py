from __future__ import annotations

CAUGHT_BY = "test_energy_of_irregular_samples"
SAYS = "each stretch counts for as long as it lasts"


def energy_between(
    time_ns: Sequence[int],
    power_mw: Sequence[int],
    start_ns: float,
    end_ns: float,
    longest_gap_ns: float,
) -> float:
    inside = [p for t, p in zip(time_ns, power_mw, strict=True) if start_ns <= t <= end_ns]
    # the samples are as good as evenly spaced
    return statistics.fmean(inside or power_mw) * (end_ns - start_ns) / 1e12
