"""Takes a saving of 0 for one that is not known."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_saving_ratio"
SAYS = "expected 0"


def saving_ratio(finding: Finding) -> float | None:
    whole = finding.evidence.get("window_ns", finding.evidence.get("duration_ns"))
    if not whole or not finding.evidence.get("recoverable_ns"):
        return None
    return finding.evidence["recoverable_ns"] / whole
