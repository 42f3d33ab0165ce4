from __future__ import annotations

CAUGHT_BY = "test_mistakes_in_generated_samples"
SAYS = "three that nobody waited for"


def timing_mistakes(samples_ns: Sequence[float], device_ns: float) -> list[str]:
    _check(samples_ns, FIRST_COUNT + 2)
    if not device_ns > 0:
        raise ValueError("no time")
    first, others = samples_ns[:FIRST_COUNT], samples_ns[FIRST_COUNT:]
    half_width = Z_95 * statistics.stdev(others) / math.sqrt(len(others))
    found = {
        "not_synchronised": statistics.median(others) < SHORTEST_RATIO * device_ns,  # wrong: all
        "no_warm_up": max(first) > START_RATIO * statistics.median(others),
        "too_few": half_width > WIDE_RATIO * statistics.fmean(others),
    }
    return [name for name, is_so in found.items() if is_so]
