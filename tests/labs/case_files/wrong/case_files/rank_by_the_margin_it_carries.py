"""Takes the margin that findings mostly carry."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_rank_a_hair_below_the_floor"
SAYS = "margin_ratio"


def rank_findings(findings: list[Finding]) -> list[Finding]:
    timeless = [f for f in findings if saving_ratio(f) is None and f.category != "healthy"]
    timed = sorted(
        (f for f in findings if saving_ratio(f) is not None),
        key=lambda f: (-f.evidence["recoverable_ns"], CATEGORIES[f.category].precedence),
    )
    kept: dict[tuple[str, str], Finding] = {}
    for finding in timeless + timed:
        saving = saving_ratio(finding)
        if finding.category != "healthy" and (
            saving is None or finding.evidence["margin_ratio"] >= 0
        ):
            kept.setdefault((finding.category, finding.subject), finding)
    healthy = [finding for finding in timed if finding.category == "healthy"]
    return list(kept.values()) or (healthy or timed)[:1]
