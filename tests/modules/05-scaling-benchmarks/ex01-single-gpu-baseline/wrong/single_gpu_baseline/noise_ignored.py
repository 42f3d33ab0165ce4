from __future__ import annotations

CAUGHT_BY = "test_verdict_on_made_up_baselines"
SAYS = "Runs of the same batch differ"


def baseline_verdict(capture: str | Path, warmup_count: int) -> Finding:
    content, rows = _read(capture), batch_sweep(capture, warmup_count)
    names, last = content.get("phase_names", []), rows[-1]
    if not {"load", "copy"} <= set(names):
        raise CaptureError("load and copy must be among the phases")
    runs = [run for run in content["runs"] if run["batch"] == last["batch"]]
    steps = [step for run in runs for step in _steady(run, warmup_count)]
    window = statistics.fmean(sum(step) for step in steps)
    savings = {
        "transfer_bound": statistics.fmean(step[names.index("copy")] for step in steps),
        "host_bound": statistics.fmean(step[names.index("load")] for step in steps),
    }
    cause = max(savings, key=lambda name: savings[name])
    margin = savings[cause] / window - FLOOR_RATIO
    text = "prepare data earlier" if margin >= 0 else "none"
    evidence = {
        "recoverable_ns": savings[cause],
        "window_ns": window,
        "recoverable_ratio": savings[cause] / window,
        "floor_ratio": FLOOR_RATIO,
        "margin_ratio": margin,
        "throughput_ratio": last["samples_per_s"] / max(row["samples_per_s"] for row in rows),
    }
    if abs(margin) <= BORDERLINE_RATIO:
        text = "borderline"
    return Finding(cause if margin >= 0 else "healthy", "device:0", evidence, text)
