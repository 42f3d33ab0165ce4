"""Calls only what reaches the floor borderline, not what just misses it."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_borderline"
SAYS = "on either side"


def borderline(finding: Finding) -> bool:
    margin = finding.evidence.get("margin_ratio")
    if margin is None:
        saving = saving_ratio(finding)
        if saving is None:
            return False
        margin = saving - FLOOR_RATIO
    return 0 <= margin <= BORDERLINE_RATIO
