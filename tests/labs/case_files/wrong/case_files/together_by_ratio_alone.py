"""Takes what a kernel saves of itself for what the run saves."""

from __future__ import annotations

from dataclasses import replace

from profiling_lab.findings import Finding

CAUGHT_BY = "test_together_one_kernel"
SAYS = "its own share"


def together(
    kernels: list[Finding], kernel_time_ns: dict[str, int], window_ns: int
) -> list[Finding]:
    out = []
    for finding in kernels:
        name = finding.subject.removeprefix("kernel:")
        if kernel_time_ns.get(name):
            ratio = finding.evidence["recoverable_ns"] / finding.evidence["duration_ns"]
            evidence = {
                **finding.evidence,
                "recoverable_ns": ratio * window_ns,
                "window_ns": window_ns,
                "recoverable_ratio": ratio,
                "margin_ratio": ratio - FLOOR_RATIO,
                "kernel_time_ratio": kernel_time_ns[name] / window_ns,
            }
            out.append(replace(finding, evidence=evidence))
    return out
