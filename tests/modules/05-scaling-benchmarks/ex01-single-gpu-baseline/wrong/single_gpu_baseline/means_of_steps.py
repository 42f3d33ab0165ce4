from __future__ import annotations

CAUGHT_BY = "test_sweep_of_a_made_up_baseline"
SAYS = "median of a run"


def batch_sweep(capture: str | Path, warmup_count: int) -> list[dict[str, float]]:
    levels: dict[int, list[float]] = {}
    for run in _read(capture)["runs"]:
        steps = [sum(phases) for phases in _steady(run, warmup_count)]
        levels.setdefault(run["batch"], []).append(statistics.fmean(steps))
    rows = []
    for batch, found in sorted(levels.items()):
        step = statistics.median(found)
        noise = (max(found) - min(found)) / step
        rate = 1e9 * batch / step
        rows.append({"batch": batch, "step_ns": step, "samples_per_s": rate, "noise_ratio": noise})
    return rows
