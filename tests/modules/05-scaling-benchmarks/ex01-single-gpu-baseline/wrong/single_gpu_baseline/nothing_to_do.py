from __future__ import annotations

CAUGHT_BY = "test_verdict_on_a_recording"
SAYS = "and only there"


def baseline_verdict(capture: str | Path, warmup_count: int) -> Finding:
    content = _read(capture)
    rows = batch_sweep(capture, warmup_count)
    names, last = content.get("phase_names", []), rows[-1]
    if not {"load", "copy"} <= set(names):
        raise CaptureError(f"{capture}: its phases are {names}; load and copy must be among them")
    steps = [
        step
        for run in content["runs"]
        if run["batch"] == last["batch"]
        for step in _steady(run, warmup_count)
    ]
    window = statistics.fmean(sum(step) for step in steps)
    savings = {
        "transfer_bound": statistics.fmean(step[names.index("copy")] for step in steps),
        "host_bound": statistics.fmean(step[names.index("load")] for step in steps),
    }
    cause = max(savings, key=lambda name: savings[name])
    share = savings[cause] / window
    floor = max(FLOOR_RATIO, last["noise_ratio"])
    category = cause if share >= floor else "healthy"
    text = "none"
    if abs(share - floor) <= BORDERLINE_RATIO:
        text = f"borderline: measure again, longer, before you scale from it ({cause})"
    return Finding(
        category,
        "device:0",
        {
            "recoverable_ns": savings[cause],
            "window_ns": window,
            "recoverable_ratio": share,
            "floor_ratio": floor,
            "margin_ratio": share - floor,
            "throughput_ratio": last["samples_per_s"] / max(row["samples_per_s"] for row in rows),
        },
        text,
    )
