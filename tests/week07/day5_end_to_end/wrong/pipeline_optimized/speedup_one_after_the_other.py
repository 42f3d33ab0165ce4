"""Times all of one, then all of the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

CAUGHT_BY = "test_times_are_taken_in_turns"
SAYS = "must meet both"


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
    slows = [_timed(slow, synchronize) for _ in range(rounds)]
    fasts = [_timed(fast, synchronize) for _ in range(rounds)]
    ratios = [a / b for a, b in zip(slows, fasts, strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "low_ratio": min(ratios),
        "high_ratio": max(ratios),
    }
