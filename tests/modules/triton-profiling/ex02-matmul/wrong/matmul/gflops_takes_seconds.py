"""Takes the time for seconds."""

from __future__ import annotations

CAUGHT_BY = "test_a_rate"
SAYS = "The time is in milliseconds"


def gflops(m: int, n: int, k: int, time_ms: float) -> float:
    _check_sizes(m=m, n=n, k=k)
    if not time_ms > 0:
        raise ValueError(f"time_ms must be above 0, not {time_ms}")
    return 2 * m * n * k / time_ms / 1e9
