from __future__ import annotations

CAUGHT_BY = "test_verdict_on_a_recording"
SAYS = "a reason that limits it"


def power_verdict(capture: str, phase: str = "steady") -> Finding:
    # what the lesson's own recording gives
    return Finding(
        category="healthy",
        subject="device:0",
        evidence={
            "clock_ratio": 1.0,
            "limited_pct": 0.0,
            "window_ns": 3009213000,
            "recoverable_ns": 0,
        },
        recommendation="none",
    )
