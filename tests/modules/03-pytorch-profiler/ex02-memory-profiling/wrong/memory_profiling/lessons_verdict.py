from __future__ import annotations

CAUGHT_BY = "test_verdict_on_a_recording"
SAYS = "memory_verdict("


def memory_verdict(capture: str) -> Finding:
    # what the lesson's own recording gives
    return Finding(
        category="memory_growth",
        subject="device:0",
        evidence={
            "growth_bytes": 8388608.0,
            "held_bytes": 210452100,
            "steps_count": 8,
            "recoverable_ns": 0,
            "window_ns": 1915907000,
        },
        recommendation="find out who keeps what is allocated at memory_leak.py:69 watch",
    )
