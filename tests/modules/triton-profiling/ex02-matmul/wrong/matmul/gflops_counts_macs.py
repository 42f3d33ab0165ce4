"""Counts a multiply-add as one operation."""

from __future__ import annotations

CAUGHT_BY = "test_a_rate"
SAYS = "A multiply-add is two operations"


def gflops(m: int, n: int, k: int, time_ms: float) -> float:
    _check_sizes(m=m, n=n, k=k)
    if not time_ms > 0:
        raise ValueError(f"time_ms must be above 0, not {time_ms}")
    return m * n * k / time_ms / 1e6
