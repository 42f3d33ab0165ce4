"""Says that memory that grows costs no time, instead of not knowing."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_saving_ratio"
SAYS = "expected None"


def saving_ratio(finding: Finding) -> float | None:
    whole = finding.evidence.get("window_ns", finding.evidence.get("duration_ns", 1))
    return finding.evidence.get("recoverable_ns", 0) / whole
