"""Takes moments in any order."""

from __future__ import annotations

import numpy as np

from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_latency_of_bad_input"
SAYS = "it must raise CaptureError"


def _moments(run: dict) -> list[np.ndarray]:
    names = ("intended_ns", "sent_ns", "start_ns", "end_ns")
    missing = [name for name in names if name not in run]
    if missing:
        raise CaptureError(f"run {run['run']} has no column {', '.join(missing)}")
    moments = [np.array(run[name], dtype=np.int64) for name in names]
    return moments
