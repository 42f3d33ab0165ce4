"""Recommends nothing where causes could not be judged."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_with_metrics_missing"
SAYS = "not judged nobody knows"


def classify_kernel(kernel: dict[str, Any]) -> Finding:
    name, metrics = kernel["name"], kernel["metrics"]
    duration = metrics.get("gpu__time_duration.sum")
    use = {unit: share for unit, share in unit_use(kernel).items() if share is not None}
    if duration is None or not use:
        raise CaptureError(f"{name}: no duration or no unit's throughput; record SpeedOfLight")
    gains = {cause: estimate_gain(kernel, cause) for cause in CAUSES}
    savings = {cause: 1 - 1 / gain for cause, gain in gains.items() if gain is not None}
    ranked = sorted(savings, key=lambda cause: (-savings[cause], CATEGORIES[cause].precedence))
    saving = savings[ranked[0]] if ranked else 0.0
    unit = max(use, key=lambda name: use[name])
    ceiling = use[unit]
    if saving >= FLOOR_RATIO:
        category = ranked[0]
        margin = saving - max([FLOOR_RATIO, *(savings[cause] for cause in ranked[1:])])
        advice = _RECOMMENDATIONS[category]
    else:
        category = LIMITER_OF_UNIT[unit] if ceiling >= BUSY_RATIO else "latency_bound"
        margins = [FLOOR_RATIO - saving, abs(ceiling - BUSY_RATIO)]
        if ceiling >= BUSY_RATIO:
            margins += [ceiling - use[other] for other in use if LIMITER_OF_UNIT[other] != category]
        margin = min(margins)
        advice = _RECOMMENDATIONS[category]
        if category == "latency_bound":
            if [row["reason"] for row in rank_stalls(kernel)][:1] == ["barrier"]:
                advice = _FEWER_BARRIERS
        elif ceiling >= CEILING_RATIO:
            advice = "none"
    unjudged = [cause for cause in CAUSES if cause not in savings]
    if margin <= BORDERLINE_RATIO:
        advice = f"borderline (by {margin:.1%} of the duration): {advice}"
    return Finding(
        category,
        f"kernel:{name}",
        {
            "duration_ns": duration,
            "recoverable_ns": saving * duration,
            "recoverable_ratio": saving,
            "ceiling_ratio": ceiling,
            "margin_ratio": margin,
            "unjudged_count": len(unjudged),
        },
        advice,
    )
