from __future__ import annotations

CAUGHT_BY = "test_threshold_of_made_up_calls"
SAYS = "threshold_ns"


def threshold_for(durations_ns: Sequence[int], loss_ratio: float) -> dict[str, float]:
    if not durations_ns or min(durations_ns) <= 0 or not 0 <= loss_ratio < 1:
        raise ValueError("no threshold")
    ordered = sorted(durations_ns)
    threshold = ordered[int(loss_ratio * len(ordered))]
    lost = sum(duration for duration in ordered if duration < threshold)
    return {
        "threshold_ns": threshold,
        "kept_count": sum(duration >= threshold for duration in ordered),
        "lost_ratio": lost / sum(ordered),
    }
