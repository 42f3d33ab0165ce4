"""Takes recoverable_ratio where it is, which may be of the kernel alone."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_saving_ratio"
SAYS = "recoverable_ns over window_ns"


def saving_ratio(finding: Finding) -> float | None:
    evidence = finding.evidence
    if "recoverable_ratio" in evidence:
        return evidence["recoverable_ratio"]
    whole = evidence.get("window_ns", evidence.get("duration_ns"))
    if whole is None or "recoverable_ns" not in evidence:
        return None
    return evidence["recoverable_ns"] / whole
