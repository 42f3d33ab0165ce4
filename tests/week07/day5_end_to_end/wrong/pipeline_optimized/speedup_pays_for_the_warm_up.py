"""Starts its first time while the device still works."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

CAUGHT_BY = "test_times_are_taken_in_turns"
SAYS = "the device worked"


def pipeline_speedup(
    slow: Callable[[], object],
    fast: Callable[[], object],
    synchronize: Callable[[], object],
    rounds: int,
) -> dict[str, float]:
    if rounds < 3:
        raise ValueError(f"at least 3 rounds, got {rounds}")
    slow()
    fast()
    ratios = [_timed(slow, synchronize) / _timed(fast, synchronize) for _ in range(rounds)]
    return {
        "ratio": statistics.median(ratios),
        "low_ratio": min(ratios),
        "high_ratio": max(ratios),
    }


def _timed(run: Callable[[], object], synchronize: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    synchronize()
    return time.perf_counter() - start
