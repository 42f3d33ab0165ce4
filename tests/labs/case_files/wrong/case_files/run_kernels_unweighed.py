"""Lets a kernel count by what it saves of itself."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_run_of_a_kernel_that_hardly_counts"
SAYS = "expected 1"


def diagnose_run(
    said: list[Finding],
    kernels: list[Finding],
    kernel_time_ns: dict[str, int],
    window_ns: int | None,
) -> list[Finding]:
    return rank_findings([*said, *kernels])
