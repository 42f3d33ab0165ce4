"""Knows four causes: copies and allocation are never the finding."""

from __future__ import annotations

from collections import defaultdict

from profiling_lab.findings import Finding

CAUGHT_BY = "test_finding_of_copies_and_of_allocation"
SAYS = "expected 'transfer_bound'"


def name_trace_bottleneck(capture: str) -> Finding:
    trace = _trace(capture)
    busy: dict[int, int] = defaultdict(int)
    for row in step_breakdown(capture):
        busy[row["device"]] += row["busy_ns"]
    subject = f"device:{min(busy, key=lambda device: (busy[device], device))}"
    growing = _growth_finding(capture, trace, subject)
    if growing is not None:
        return growing
    start, end = _window(trace["events"], capture)
    saved = {
        k: (v if k in ("waits", "launch_cost", "host_code", "compilation") else 0)
        for k, v in recoverable_time(capture).items()
    }
    largest = max(saved, key=lambda name: (saved[name], -_precedence(name)))
    near_ns = max(
        HEALTHY_FLOOR_RATIO * (end - start), saved[largest] - BORDERLINE_RATIO * (end - start)
    )
    near = [name for name in saved if saved[name] >= near_ns]
    cause = min(near, key=_precedence, default=largest)
    ratio = saved[cause] / (end - start)
    margin = ratio - HEALTHY_FLOOR_RATIO
    category = CATEGORY_OF_CAUSE[cause] if near else "healthy"
    recommendation = _RECOMMENDATIONS[category]
    if category == "sync_bound":
        lines = [row["where"] for row in synchronizing_calls(capture) if row["where"]]
        recommendation += f" ({lines[0]})" if lines else ""
    if abs(margin) <= BORDERLINE_RATIO:
        recommendation = f"borderline ({ratio:.1%} of the steps): " + (
            recommendation if category != "healthy" else f"watch {CATEGORY_OF_CAUSE[cause]}"
        )
    return Finding(
        category,
        subject,
        {
            "recoverable_ns": saved[cause],
            "window_ns": end - start,
            "recoverable_ratio": ratio,
            "margin_ratio": margin,
        },
        recommendation,
    )
