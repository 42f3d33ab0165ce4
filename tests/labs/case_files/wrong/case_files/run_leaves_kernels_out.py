"""Goes by the timeline, and leaves out what it cannot see."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_run_of_a_kernel_that_fills_it"
SAYS = "cannot see into"


def diagnose_run(
    said: list[Finding],
    kernels: list[Finding],
    kernel_time_ns: dict[str, int],
    window_ns: int | None,
) -> list[Finding]:
    if window_ns is None:
        return rank_findings(said) + sorted(
            kernels, key=lambda finding: -finding.evidence["recoverable_ns"]
        )
    return rank_findings(said)
