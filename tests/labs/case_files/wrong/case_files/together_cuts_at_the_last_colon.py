"""Takes what stands behind the last colon for the advice."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_together_borderline_is_about_the_run"
SAYS = "borderline is asked again, of the run"


def together(
    kernels: list[Finding], kernel_time_ns: dict[str, int], window_ns: int
) -> list[Finding]:
    groups: dict[str, list[Finding]] = {}
    for finding in kernels:
        groups.setdefault(finding.subject.removeprefix("kernel:"), []).append(finding)
    out = []
    for name, group in groups.items():
        time_ns = kernel_time_ns.get(name, 0)
        if not time_ns:
            continue
        worst = max(group, key=lambda finding: finding.evidence["recoverable_ns"])
        saved = sum(finding.evidence["recoverable_ns"] for finding in group)
        alone = sum(finding.evidence["duration_ns"] for finding in group)
        ratio = saved / alone * time_ns / window_ns
        evidence = {
            **worst.evidence,
            "recoverable_ns": ratio * window_ns,
            "window_ns": window_ns,
            "recoverable_ratio": ratio,
            "margin_ratio": ratio - FLOOR_RATIO,
            "kernel_time_ratio": time_ns / window_ns,
        }
        advice = worst.recommendation
        if advice.startswith("borderline"):
            advice = advice.rpartition(": ")[2]
        if abs(ratio - FLOOR_RATIO) <= BORDERLINE_RATIO:
            advice = f"borderline: {advice}"
        out.append(replace(worst, evidence=evidence, recommendation=advice))
    return out
