"""Keeps one of the findings that are not about time."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_rank_all_that_is_not_about_time"
SAYS = "What is not about time comes first"


def rank_findings(findings: list[Finding]) -> list[Finding]:
    timeless = [f for f in findings if saving_ratio(f) is None and f.category != "healthy"]
    timed = sorted(
        (f for f in findings if saving_ratio(f) is not None),
        key=lambda f: (-f.evidence["recoverable_ns"], CATEGORIES[f.category].precedence),
    )
    kept: dict[tuple[str, str], Finding] = {}
    for finding in timeless[:1] + timed:
        saving = saving_ratio(finding)
        if finding.category != "healthy" and (saving is None or saving >= FLOOR_RATIO):
            kept.setdefault((finding.category, finding.subject), finding)
    healthy = [finding for finding in timed if finding.category == "healthy"]
    return list(kept.values()) or (healthy or timed)[:1]
