from __future__ import annotations

CAUGHT_BY = "test_threshold_of_made_up_calls"
SAYS = "exactly as long"


def threshold_for(durations_ns: Sequence[int], loss_ratio: float) -> dict[str, float]:
    if not durations_ns or min(durations_ns) <= 0 or not 0 <= loss_ratio < 1:
        raise ValueError("no threshold")
    total = sum(durations_ns)
    threshold = max(
        limit
        for limit in durations_ns
        if sum(other for other in durations_ns if other < limit) <= loss_ratio * total
    )
    return {
        "threshold_ns": threshold,
        "kept_count": sum(duration > threshold for duration in durations_ns),
        "lost_ratio": sum(other for other in durations_ns if other < threshold) / total,
    }
