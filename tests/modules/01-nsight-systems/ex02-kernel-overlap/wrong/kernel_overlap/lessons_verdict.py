"""Returns the numbers of the lesson's recording."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_recorded_verdict"
SAYS = "evidence recoverable_ns is"


def judge_streams(capture: str, device: int = 0) -> Finding:
    evidence = {
        "recoverable_ns": 2165851,
        "window_ns": 3151962,
        "recoverable_ratio": 2165851 / 3151962,
        "margin_ratio": 2165851 / 3151962 - 0.10,
        "average_count": 1.0,
        "streams_count": 5,
    }
    return Finding("serialized_streams", "device:0", evidence, "use non-blocking streams")
