"""Names the category of a function's first launch."""

from __future__ import annotations

CAUGHT_BY = "test_ranking_on_a_slip_of_paper"
SAYS = "share its launches"


def rank_kernels(findings: list[Finding], launches: dict[str, int]) -> list[dict[str, Any]]:
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_function(finding.subject.partition(":")[2]), []).append(finding)
    rows = []
    for name, group in groups.items():
        count = launches.get(name, 0)
        if count < 0:
            raise ValueError(f"{name}: {count} launches")
        each = count / len(group)
        worst = group[0]
        if count:
            rows.append(
                {
                    "name": name,
                    "category": worst.category,
                    "total_ns": each * sum(f.evidence["duration_ns"] for f in group),
                    "recoverable_ns": each * sum(f.evidence["recoverable_ns"] for f in group),
                }
            )
    return sorted(rows, key=lambda row: (-row["recoverable_ns"], -row["total_ns"], row["name"]))
