from __future__ import annotations

CAUGHT_BY = "test_recorded_samples_become_steady"
SAYS = "the level of the second half is"


def steady_from(samples_ns: Sequence[float], window: int = 5, tolerance: float = 0.05) -> int:
    if window < 1 or not tolerance > 0:
        raise ValueError("window and tolerance must be above 0")
    _check(samples_ns, 2 * window)
    half = len(samples_ns) // 2
    level = statistics.median(samples_ns[half:])
    if all(abs(x - level) > tolerance * level for x in samples_ns[:half]):
        raise ValueError("no steady state")
    return 1  # the first call compiles, the lesson says
