"""Names a cause below the floor because it comes close to one above."""

from __future__ import annotations

from collections import defaultdict

CAUGHT_BY = "test_causes_that_cure_the_same_gap"
SAYS = "launch_bound"


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
    saved = recoverable_time(capture)
    largest = max(saved, key=lambda name: (saved[name], -_precedence(name)))
    near_ns = saved[largest] - BORDERLINE_RATIO * (end - start)
    near = [name for name in saved if saved[name] >= near_ns]
    if saved[largest] < HEALTHY_FLOOR_RATIO * (end - start):
        near = []
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
