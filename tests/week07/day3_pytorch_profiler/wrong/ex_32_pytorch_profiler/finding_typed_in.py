"""Returns the lesson's finding."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_finding_of_a_recording"
SAYS = "Saved by taking a cause away"


def name_trace_bottleneck(capture: str) -> Finding:
    return Finding(
        "launch_bound",
        "device:0",
        {
            "recoverable_ns": 30284171,
            "window_ns": 38013112,
            "recoverable_ratio": 0.797,
            "margin_ratio": 0.697,
        },
        "issue less",
    )
