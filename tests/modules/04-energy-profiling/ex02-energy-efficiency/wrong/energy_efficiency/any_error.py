from __future__ import annotations

CAUGHT_BY = "test_verdict_on_a_made_up_sweep"
SAYS = "exact enough"


def precision_verdict(
    capture: str, batch: int, tolerance_ratio: float, bandwidth_bytes_per_s: float
) -> Finding:
    if bandwidth_bytes_per_s <= 0:
        raise ValueError(f"a bandwidth of {bandwidth_bytes_per_s} B/s: it must be above 0")
    recording = read_recording(capture)
    rows = {row["precision"]: row for row in efficiency(capture) if row["batch"] == batch}
    errors = recording.get("error_ratio", {})
    if "float32" not in rows or not rows.keys() <= errors.keys():
        raise CaptureError(f"{capture}: no float32 at batch {batch}, or an error is not known")
    now = rows.pop("float32")
    phase = next(
        p
        for p in recording["phases"]
        if (p["name"], p["precision"], p["batch"]) == ("work", "float32", batch)
    )
    moved_per_s = phase["bytes"] * NS_PER_S / (phase["end_ns"] - phase["start_ns"])
    moved_ratio = moved_per_s / bandwidth_bytes_per_s
    candidates = list(rows.values())
    best = min(candidates, key=lambda row: row["j_per_sample"], default=now)
    saved_pct = 100 * (1 - best["j_per_sample"] / now["j_per_sample"])
    category, advice = "healthy", "none"
    if saved_pct > SAVED_FLOOR_PCT:
        category = "memory_bound" if moved_ratio >= MEMORY_RATIO else "tensor_cores_unused"
        advice = f"run it in {best['precision']}, if its error is allowed"
    if best is not now and _overlap(best, now):
        advice = f"borderline: {advice}; repeat both more often"
    return Finding(
        category=category,
        subject="range:work",
        evidence={
            "saved_pct": saved_pct,
            "bandwidth_ratio": moved_ratio,
            "error_ratio": errors[best["precision"]],
            "window_ns": now["call_ns"],
            "recoverable_ns": max(0.0, now["call_ns"] - best["call_ns"]),
        },
        recommendation=advice,
    )
