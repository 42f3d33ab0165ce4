"""Leaves the healthy one behind what was found."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_rank_memory_that_grows_first"
SAYS = "healthy"


def rank_findings(findings: list[Finding]) -> list[Finding]:
    timeless = [f for f in findings if saving_ratio(f) is None]
    timed = [f for f in findings if saving_ratio(f) is not None]
    timed.sort(key=lambda f: (-f.evidence["recoverable_ns"], CATEGORIES[f.category].precedence))
    worth = [f for f in timed if f.category == "healthy" or saving_ratio(f) >= FLOOR_RATIO]
    return timeless + worth
