"""Ranks by the share of a window, though windows differ in length."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_rank_the_largest_saving_not_the_largest_share"
SAYS = "are less than"


def rank_findings(findings: list[Finding]) -> list[Finding]:
    timeless = [f for f in findings if saving_ratio(f) is None and f.category != "healthy"]
    timed = sorted(
        (f for f in findings if saving_ratio(f) is not None),
        key=lambda f: (-saving_ratio(f), CATEGORIES[f.category].precedence),
    )
    kept = {}
    for finding in timeless + timed:
        saving = saving_ratio(finding)
        if finding.category != "healthy" and (saving is None or saving >= FLOOR_RATIO):
            kept.setdefault((finding.category, finding.subject), finding)
    healthy = [finding for finding in timed if finding.category == "healthy"]
    return list(kept.values()) or (healthy or timed)[:1]
