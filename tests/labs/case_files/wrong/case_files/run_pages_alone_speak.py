"""Where there are pages and no timeline, what was said of a trace is lost."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_run_of_pages_alone"
SAYS = "What was said comes first"


def diagnose_run(
    said: list[Finding],
    kernels: list[Finding],
    kernel_time_ns: dict[str, int],
    window_ns: int | None,
) -> list[Finding]:
    if window_ns is not None:
        return rank_findings([*said, *together(kernels, kernel_time_ns, window_ns)])
    alone = sorted(kernels, key=lambda finding: -finding.evidence["recoverable_ns"])
    return (rank_findings(said) if not kernels else []) + alone
