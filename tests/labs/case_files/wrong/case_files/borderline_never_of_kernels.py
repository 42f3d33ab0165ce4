"""Kernels are never borderline."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_borderline"
SAYS = "on either side of another verdict"


def borderline(finding: Finding) -> bool:
    if finding.subject.startswith("kernel"):
        return False
    margin = finding.evidence.get("margin_ratio")
    if margin is None:
        saving = saving_ratio(finding)
        if saving is None:
            return False
        margin = saving - FLOOR_RATIO
    return abs(margin) <= BORDERLINE_RATIO
