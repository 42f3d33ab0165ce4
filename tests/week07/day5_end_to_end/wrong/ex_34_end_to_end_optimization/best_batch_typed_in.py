"""Returns the lesson's choice."""

from __future__ import annotations

CAUGHT_BY = "test_best_batch_of_a_recorded_sweep"
SAYS = "Per size"


def best_batch(capture: str, limit_ns: float, percent: float = 99) -> dict | None:
    return {"batch": 256, "throughput_per_s": 7740.4225121722675, "percentile_ns": 33620000.0}
