"""Divides by the kernel's duration even where there is a window."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_saving_ratio"
SAYS = "over window_ns"


def saving_ratio(finding: Finding) -> float | None:
    whole = finding.evidence.get("duration_ns", finding.evidence.get("window_ns"))
    if whole is None or "recoverable_ns" not in finding.evidence:
        return None
    return finding.evidence["recoverable_ns"] / whole
