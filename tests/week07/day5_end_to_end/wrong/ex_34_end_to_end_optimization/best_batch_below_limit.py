"""Wants to stay below the limit."""

from __future__ import annotations

from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_best_batch_of_a_recorded_sweep"
SAYS = "whose percentile is the limit keeps it"


def best_batch(capture: str, limit_ns: float, percent: float = 99) -> dict | None:
    if not limit_ns > 0:
        raise ValueError(f"limit_ns must be above 0, got {limit_ns}")
    best = None
    for name, run in read_runs(capture, "service.json").items():
        batch, samples = run.get("batch"), run.get("service_ns")
        if type(batch) is not int or batch < 1:
            raise CaptureError(f"{capture}, run {name}: batch is {batch!r}, not a size")
        if not samples or not sum(samples):
            raise CaptureError(f"{capture}, run {name}: has no service times")
        point = {
            "batch": batch,
            "throughput_per_s": batch * len(samples) / (sum(samples) / 1e9),
            "percentile_ns": percentile(samples, percent),
        }
        if point["percentile_ns"] < limit_ns and (best is None or _rank(point) > _rank(best)):
            best = point
    return best
