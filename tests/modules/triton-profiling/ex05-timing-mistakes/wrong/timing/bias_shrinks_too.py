from __future__ import annotations

CAUGHT_BY = "test_errors_of_a_recording"
SAYS = "repeats leave it as it is"


def error_after(
    samples_ns: Sequence[float], reference_ns: float, repeats: int
) -> dict[str, float | str]:
    _check(samples_ns, 2)
    if repeats < 1 or not reference_ns > 0:
        raise ValueError("must be above 0")
    half_width = Z_95 * statistics.stdev(samples_ns) / math.sqrt(repeats)
    bias = (statistics.fmean(samples_ns) - reference_ns) / math.sqrt(repeats)
    return {
        "half_width_ns": half_width,
        "bias_ns": bias,
        "limit": "bias" if abs(bias) > half_width else "spread",
    }
