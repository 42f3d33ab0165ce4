"""Compares speeds whatever is computed."""

from __future__ import annotations

import statistics
from typing import Any

from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_differences_that_are_known"
SAYS = "one error is"


def framework_verdict(capture: str, size: str, first: str, second: str) -> dict[str, Any]:
    rows = read_size(capture, size)
    for name in (first, second):
        if name not in rows:
            raise CaptureError(f"no variant {name!r} in this recording; it has {', '.join(rows)}")

    def ratios(one: str, other: str) -> list[float]:
        pairs = zip(rows[one]["done"], rows[other]["done"], strict=True)
        return [left / right for left, right in pairs]

    distances = [
        abs(statistics.median(ratios(name, f"{name} again")) - 1)
        for name in rows
        if f"{name} again" in rows
    ]
    if not distances:
        raise CaptureError("no variant was measured twice: how large is the noise?")
    noise = max(distances)
    middle, low, high = median_interval(ratios(first, second))
    errors = sorted(rows[name]["relative_error"] for name in (first, second))
    error_ratio = errors[1] / errors[0]
    if low <= 1 <= high or abs(middle - 1) <= noise:
        verdict = "no difference"
    else:
        verdict = min((middle, "first"), (1 / middle, "second"))[1]
    return {
        "speedup_ratio": middle,
        "low_ratio": low,
        "high_ratio": high,
        "noise_ratio": noise,
        "error_ratio": error_ratio,
        "verdict": verdict,
    }
