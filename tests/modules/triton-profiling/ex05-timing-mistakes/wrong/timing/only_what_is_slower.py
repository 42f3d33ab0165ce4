from __future__ import annotations

CAUGHT_BY = "test_steady_to_the_letter"
SAYS = "in a row lie within"


def steady_from(samples_ns: Sequence[float], window: int = 5, tolerance: float = 0.05) -> int:
    if window < 1 or not tolerance > 0:
        raise ValueError("window and tolerance must be above 0")
    _check(samples_ns, 2 * window)
    half = len(samples_ns) // 2
    level = statistics.median(samples_ns[half:])
    for place in range(half + 1):
        if all(x <= (1 + tolerance) * level for x in samples_ns[place : place + window]):
            return place
    raise ValueError("no steady state")
