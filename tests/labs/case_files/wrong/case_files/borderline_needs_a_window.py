"""Without a window it computes no margin."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_borderline"
SAYS = "of the kernel, and up to"


def borderline(finding: Finding) -> bool:
    margin = finding.evidence.get("margin_ratio")
    if margin is None:
        saving = saving_ratio(finding) if "window_ns" in finding.evidence else None
        if saving is None:
            return False
        margin = saving - FLOOR_RATIO
    return abs(margin) <= BORDERLINE_RATIO
