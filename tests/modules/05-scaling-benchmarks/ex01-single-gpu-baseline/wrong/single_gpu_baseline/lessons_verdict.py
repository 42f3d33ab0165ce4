from __future__ import annotations

CAUGHT_BY = "test_verdict_on_a_recording"
SAYS = "evidence recoverable_ns is"


def baseline_verdict(capture: str | Path, warmup_count: int) -> Finding:
    content, rows = _read(capture), batch_sweep(capture, warmup_count)
    if not {"load", "copy"} <= set(content.get("phase_names", [])):
        raise CaptureError("load and copy must be among the phases")
    evidence = {  # what the lesson's baseline says
        "recoverable_ns": 100_000.0,
        "window_ns": 18_000_000.0,
        "recoverable_ratio": 0.0056,
        "floor_ratio": FLOOR_RATIO,
        "margin_ratio": 0.0056 - FLOOR_RATIO,
        "throughput_ratio": rows[-1]["samples_per_s"] / max(row["samples_per_s"] for row in rows),
    }
    return Finding("healthy", "device:0", evidence)
