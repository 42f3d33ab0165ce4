"""Takes the device with the fewest operations."""

from __future__ import annotations

from profiling_lab import captures
from profiling_lab.captures.dependencies import read as read_dependencies
from profiling_lab.findings import Finding

CAUGHT_BY = "test_idle_time_is_all_of_it"
SAYS = "idle longest"


def name_bottleneck(capture: str, nvtx_range: str | None = None) -> Finding:
    saved = recoverable_time(capture, nvtx_range)
    with captures.open(capture) as recording:
        window = find_window(capture, nvtx_range) if nvtx_range is not None else None
        operations = [o for o in read_dependencies(recording, window) if o.device >= 0]
    window_ns = max(o.end_ns for o in operations) - min(o.start_ns for o in operations)
    cause = max(saved, key=lambda name: (saved[name], -_precedence(name)))
    ratio = saved[cause] / window_ns
    margin = ratio - HEALTHY_FLOOR_RATIO
    category = CATEGORY_OF_CAUSE[cause] if margin >= 0 else "healthy"
    recommendation = _RECOMMENDATIONS[category]
    if abs(margin) <= BORDERLINE_RATIO:
        recommendation = (
            f"borderline ({ratio:.1%} of the window against a floor of {HEALTHY_FLOOR_RATIO:.0%}): "
            + (recommendation if category != "healthy" else f"watch {CATEGORY_OF_CAUSE[cause]}")
        )
    return Finding(
        category,
        f"range:{nvtx_range}" if nvtx_range is not None else f"device:{_few(capture)}",
        {
            "recoverable_ns": saved[cause],
            "window_ns": window_ns,
            "recoverable_ratio": ratio,
            "margin_ratio": margin,
        },
        recommendation,
    )


def _few(capture: str) -> int:
    with captures.open(capture) as recording:
        ops = recording.device_operations
    counts = dict(ops.group_by("device").len().iter_rows())
    return min(counts, key=lambda d: (counts[d], d))
