from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_made_up_runs"
SAYS = "evidence"


def scaling_verdict(capture: str | Path, series: str, world_size: int) -> Finding:
    runs = {run["world_size"]: run for run in _runs(capture, series)}
    if world_size not in runs or world_size < 2:
        raise ValueError("world_size")
    run = runs[world_size]
    places = list(zip(*run["alone_ns"], strict=True))
    steps = [step for rank in run["step_ns"] for step in rank]
    if not steps or not places:
        raise ValueError("no steps")
    window = statistics.fmean(steps)
    exposed = max(0.0, window - statistics.fmean(statistics.fmean(place) for place in places))
    margin = exposed / window - FLOOR_RATIO
    evidence = {
        "recoverable_ns": exposed,
        "window_ns": window,
        "recoverable_ratio": exposed / window,
        "margin_ratio": margin,
        "waiting_ns": 0.0,
        "exposed_ns": exposed,
    }
    text = "overlap more" if margin >= 0 else "none"
    if abs(margin) <= BORDERLINE_RATIO:
        text = "borderline"
    category = "communication_bound" if margin >= 0 else "healthy"
    return Finding(category, f"range:{series}", evidence, text)
