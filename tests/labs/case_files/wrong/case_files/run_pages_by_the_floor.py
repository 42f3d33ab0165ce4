"""Leaves out kernels at their ceiling where pages are all there is."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_run_of_pages_alone"
SAYS = "each stays as it is"


def diagnose_run(
    said: list[Finding],
    kernels: list[Finding],
    kernel_time_ns: dict[str, int],
    window_ns: int | None,
) -> list[Finding]:
    if window_ns is None:
        return rank_findings([*said, *kernels])
    return rank_findings([*said, *together(kernels, kernel_time_ns, window_ns)])
