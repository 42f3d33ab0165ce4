"""Of healthy findings keeps the one with the largest share."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_rank_nothing_worth_it_in_windows_of_different_length"
SAYS = "not the largest share"


def rank_findings(findings: list[Finding]) -> list[Finding]:
    timeless = [f for f in findings if saving_ratio(f) is None and f.category != "healthy"]
    timed = sorted(
        (f for f in findings if saving_ratio(f) is not None),
        key=lambda f: (-f.evidence["recoverable_ns"], CATEGORIES[f.category].precedence),
    )
    kept: dict[tuple[str, str], Finding] = {}
    for finding in timeless + timed:
        saving = saving_ratio(finding)
        if finding.category != "healthy" and (saving is None or saving >= FLOOR_RATIO):
            kept.setdefault((finding.category, finding.subject), finding)
    healthy = [finding for finding in timed if finding.category == "healthy"]
    return list(kept.values()) or (sorted(healthy, key=lambda f: -saving_ratio(f)) or timed)[:1]
