"""Puts memory that grows behind what saves time."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_rank_memory_that_grows_first"
SAYS = "comes first"


def rank_findings(findings: list[Finding]) -> list[Finding]:
    timed = [f for f in findings if saving_ratio(f) is not None]
    timed.sort(key=lambda f: (-f.evidence["recoverable_ns"], CATEGORIES[f.category].precedence))
    kept = {}
    for finding in timed:
        if finding.category != "healthy" and saving_ratio(finding) >= FLOOR_RATIO:
            kept.setdefault((finding.category, finding.subject), finding)
    for finding in findings:
        if saving_ratio(finding) is None and finding.category != "healthy":
            kept.setdefault((finding.category, finding.subject), finding)
    healthy = [finding for finding in timed if finding.category == "healthy"]
    return list(kept.values()) or (healthy or timed)[:1]
