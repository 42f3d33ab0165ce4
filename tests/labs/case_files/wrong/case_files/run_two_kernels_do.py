"""Two kernels are enough."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_run_ranks_all_that_counts"
SAYS = "three kernels returned"


def diagnose_run(
    said: list[Finding],
    kernels: list[Finding],
    kernel_time_ns: dict[str, int],
    window_ns: int | None,
) -> list[Finding]:
    if window_ns is not None:
        return rank_findings([*said, *together(kernels, kernel_time_ns, window_ns)[:2]])
    alone = sorted(kernels, key=lambda finding: -finding.evidence["recoverable_ns"])
    return rank_findings(said) + alone
