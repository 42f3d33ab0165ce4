from __future__ import annotations

CAUGHT_BY = "test_sweep_of_a_made_up_baseline"
SAYS = "step_ns is"


def batch_sweep(capture: str | Path, warmup_count: int) -> list[dict[str, float]]:
    levels: dict[int, list[float]] = {}
    for run in _read(capture)["runs"]:
        steps = [sum(phases) for phases in _steady(run, warmup_count)]
        levels.setdefault(run["batch"], []).append(statistics.median(steps))
    return [
        {
            "batch": batch,
            "step_ns": found[0],
            "samples_per_s": 1e9 * batch / found[0],
            "noise_ratio": (max(found) - min(found)) / found[0],
        }
        for batch, found in sorted(levels.items())
    ]
