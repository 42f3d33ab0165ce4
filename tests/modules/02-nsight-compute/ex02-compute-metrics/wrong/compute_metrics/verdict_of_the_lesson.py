# The verdict of the lesson's first kernel, whatever the kernel.
from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_recorded_kernels"
SAYS = "compute is busy"


def compute_verdict(kernel: dict[str, Any]) -> Finding:
    return Finding(
        "small_grid",
        f"kernel:{kernel['name']}",
        {
            "duration_ns": 21_152.0,
            "compute_ratio": 0.23,
            "memory_ratio": 0.002,
            "lost_ratio": 0.87,
            "filled_ratio": 0.06,
            "margin_ratio": 0.35,
        },
        "cut the work into more blocks",
    )
