"""Returns the numbers of the lesson's recording."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_clock_on_a_recording"
SAYS = "evidence of clock_verdict"


def clock_verdict(capture: str, device: int = 0) -> Finding:
    evidence = {
        "recoverable_ns": 168215347,
        "window_ns": 1135952583,
        "recoverable_ratio": 168215347 / 1135952583,
        "margin_ratio": 168215347 / 1135952583 - 0.10,
        "clock_ratio": 0.8287444752643253,
    }
    return Finding("throttled", f"device:{device}", evidence, "ask for less power")
