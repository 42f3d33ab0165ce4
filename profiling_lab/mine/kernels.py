"""A verdict on a kernel as a finding: the word is the learner's, its evidence is computed from their functions.

Given by the library are the reading of pages, what a cause would leave (`profiling_lab.kernel_causes`), and the words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from profiling_lab.captures import kernels
from profiling_lab.captures.inputs import Part
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.mine.functions import Functions

DURATION = "gpu__time_duration.sum"
CAUSES = (
    *("uncoalesced_access", "bank_conflicts", "register_spills", "divergence", "low_occupancy"),
    *("small_grid", "tail_effect", "atomic_contention", "tensor_cores_unused"),
)
FLOOR_RATIO = 0.10  # of the duration: a smaller saving is not worth naming
BUSY_RATIO = 0.6  # with no unit used this much, nothing is near a ceiling
CEILING_RATIO = 0.8  # from this use on, the kernel is at its ceiling
# Two recordings of one kernel differ by as much as 0.021 in the largest saving or the fullest unit's use (Day 2's lesson
# compares them).
BORDERLINE_RATIO = 0.03


def launches(part: Part) -> Iterator[tuple[Any, ...]]:
    """What `classify_kernel` is asked about. Raises CaptureError for a launch that was hardly measured."""
    for kernel in kernels.read(part.path):
        known = (kernel["metrics"].get(name) for names in kernels.UNITS.values() for name in names)
        if kernel["metrics"].get(DURATION) is None or all(value is None for value in known):
            raise CaptureError(
                f"{kernel['name']}: no duration or no unit's throughput; record SpeedOfLight"
            )
        yield (kernel,)


def finding_of(functions: Functions, kernel: dict[str, Any], category: Any) -> Finding:
    """A category with its evidence, and how near another one is. Raises FunctionUnavailable as the functions do."""
    use = [share for share in functions.call("unit_use", kernel).values() if share is not None]
    gains = {cause: functions.call("estimate_gain", kernel, cause) for cause in CAUSES}
    unjudged = [cause for cause, gain in gains.items() if gain is None]
    savings = sorted((1 - 1 / gain for gain in gains.values() if gain is not None), reverse=True)
    first, second = [*savings, 0.0, 0.0][:2]
    ceiling, duration = max(use, default=0.0), kernel["metrics"][DURATION]
    if category in CAUSES:
        margin = first - max(FLOOR_RATIO, second)
    else:
        margin = min(FLOOR_RATIO - first, abs(ceiling - BUSY_RATIO))
    advice = CATEGORIES[category].remedy if category in CATEGORIES else ""
    if category not in (*CAUSES, "latency_bound") and ceiling >= CEILING_RATIO:
        advice = "none"
    if unjudged:
        advice = f"record more sections; not judged: {', '.join(unjudged)}; else: {advice}"
    if margin <= BORDERLINE_RATIO:
        advice = f"borderline (by {margin:.1%} of the duration): {advice}"
    evidence = {
        "duration_ns": duration,
        "recoverable_ns": first * duration,
        "recoverable_ratio": first,
        "ceiling_ratio": ceiling,
        "margin_ratio": margin,
        "unjudged_count": len(unjudged),
    }
    return Finding(category, f"kernel:{kernel['name']}", evidence, advice)
