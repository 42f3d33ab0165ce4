from __future__ import annotations

CAUGHT_BY = "test_verdict_of_generated_captures"
SAYS = "Alarms:"


def verdict(capture: str) -> Finding:
    evidence = {"recoverable_ns": 149_088_290, "window_ns": 259_812_405, "alarms_count": 16}
    captures.path(capture)
    return Finding("transfer_bound", "device:0", evidence, "pin the host memory")
