from __future__ import annotations

CAUGHT_BY = "test_gate_of_recordings"
SAYS = "calls a step"


def gate(
    before: str,
    after: str,
    step: str,
    budget_ratio: float,
    equal_runs: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    if budget_ratio < 0:
        raise ValueError(f"budget_ratio is {budget_ratio}: it must not be negative")
    old, new = step_times(before, step), step_times(after, step)
    if len(old) != len(new):
        raise ValueError(
            f"{before} has {len(old) + 1} steps and {after} {len(new) + 1}: not the same work"
        )
    moved = _ratios(old, new)
    floor = max(
        (
            abs(_ratios(step_times(a, step), step_times(b, step))["shift_ratio"])
            for a, b in equal_runs
        ),
        default=0.0,
    )
    allowed = max(budget_ratio, floor)
    if moved["low_ratio"] > allowed:
        verdict = "regression"
    else:
        verdict = "unclear" if moved["high_ratio"] > allowed else "passed"
    pieces = decompose(before, after)
    category = _category(before, after, step, pieces) if verdict == "regression" else "healthy"
    saved = max(0, round(moved["shift_ratio"] * statistics.median(old) * len(new)))
    return {
        "verdict": verdict,
        "exit_code": 1 if verdict == "regression" else 0,
        **moved,
        "floor_ratio": floor,
        "allowed_ratio": allowed,
        "pieces": pieces,
        "finding": Finding(
            category,
            f"range:{step}",
            {"recoverable_ns": saved, "window_ns": sum(new), **moved, "allowed_ratio": allowed},
            _RECOMMENDATIONS.get(category, "none"),
        ),
    }


def _category(before: str, after: str, step: str, pieces: list[dict[str, Any]]) -> str:
    return "transfer_bound"
