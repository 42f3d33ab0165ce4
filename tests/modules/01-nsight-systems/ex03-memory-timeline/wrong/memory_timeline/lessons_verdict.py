"""Returns the numbers of the lesson's recording."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_recorded_verdict"
SAYS = "evidence recoverable_ns is"


def judge_copies(capture: str, device: int = 0) -> Finding:
    evidence = {
        "recoverable_ns": 3415454,
        "window_ns": 5822364,
        "recoverable_ratio": 3415454 / 5822364,
        "exposed_ns": 3754077,
        "pageable_bytes": 0,
    }
    return Finding("transfer_bound", "device:0", evidence, "use streams")
