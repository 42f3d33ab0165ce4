# The verdict of one kernel of the lesson, whatever the kernel.
from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_recorded_kernels"
SAYS = "of its lowest roof"


def roofline_verdict(kernel: dict[str, Any]) -> Finding:
    return Finding(
        "memory_bound",
        f"kernel:{kernel['name']}",
        {
            "duration_ns": 123_040.0,
            "reached_ratio": 0.87,
            "unseen_ratio": 0.87,
            "dram_intensity_ratio": 2.1,
            "dram_ridge_ratio": 13.7,
            "free_count": 7.06e9,
            "margin_ratio": 0.27,
        },
        "fuse what follows into this kernel",
    )
