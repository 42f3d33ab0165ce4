"""Sorts the findings by duration."""

from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_a_recording"
SAYS = "classify_kernels('ncu_memory')[0]"


def classify_kernels(capture: str) -> list[Finding]:
    return sorted(
        (classify_kernel(k) for k in read_metrics(capture)),
        key=lambda f: -f.evidence["duration_ns"],
    )
