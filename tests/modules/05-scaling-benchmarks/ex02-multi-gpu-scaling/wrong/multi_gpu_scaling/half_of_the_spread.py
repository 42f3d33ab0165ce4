from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_a_recording[scaling_four_bf16]"
SAYS = "waiting_ns is"


def scaling_verdict(capture: str | Path, series: str, world_size: int) -> Finding:
    runs = {run["world_size"]: run for run in _runs(capture, series)}
    if world_size not in runs or world_size < 2:
        raise ValueError(f"series {series!r}: world sizes above 1 are {sorted(set(runs) - {1})}")
    run = runs[world_size]
    steps = [step for place in zip(*run["step_ns"], strict=True) for step in place]
    places = list(zip(*run["alone_ns"], strict=True))
    if not steps or not places:
        raise ValueError(f"series {series!r}, world size {world_size}: holds no steps")
    window = statistics.fmean(steps)
    slowest = statistics.fmean(max(place) for place in places)
    # Right for two ranks only.
    waiting = statistics.fmean(max(place) - min(place) for place in places) / 2
    exposed = max(0.0, window - slowest)
    cause = "rank_imbalance" if waiting > exposed else "communication_bound"
    saving = max(waiting, exposed)
    margin = saving / window - FLOOR_RATIO
    category = cause if margin >= 0 else "healthy"
    means = [statistics.fmean(rank) for rank in run["alone_ns"]]
    advice = {
        "rank_imbalance": "give the slowest rank less work, or find out what slows it down",
        "communication_bound": "more work between exchanges, or fewer bytes, or more of it overlapped",
        "healthy": "none",
    }
    text = advice[category]
    if abs(margin) <= BORDERLINE_RATIO:
        text = f"borderline: measure again, longer ({cause})"
    return Finding(
        category,
        f"rank:{means.index(max(means))}" if category == "rank_imbalance" else f"range:{series}",
        {
            "recoverable_ns": saving,
            "window_ns": window,
            "recoverable_ratio": saving / window,
            "margin_ratio": margin,
            "waiting_ns": waiting,
            "exposed_ns": exposed,
        },
        text,
    )
