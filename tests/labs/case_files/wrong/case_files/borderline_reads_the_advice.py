"""Trusts the words of the recommendation instead of the margin."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_borderline"
SAYS = "margin_ratio is"


def borderline(finding: Finding) -> bool:
    return finding.recommendation.startswith("borderline")
