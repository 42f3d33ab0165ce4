"""Takes every clock that was sampled for the one of the multiprocessors."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_launches_are_held_against_their_likes"
SAYS = "launches of the same kernel, grid and block"


def clock_verdict(capture: str, device: int = 0) -> Finding:
    recording = captures.open(capture)
    samples = [
        (time, value)
        for time, number, metric, value in recording.gpu_metrics.iter_rows()
        if number == device and "Clock" in metric
    ]
    if not samples:
        raise CaptureError(
            f"{capture}: no clock of device {device}; record with --gpu-metrics-devices=all"
        )
    rows = [row for row in recording.device_operations.rows(named=True) if row["device"] == device]
    if not rows:
        raise CaptureError(f"{capture}: nothing ran on device {device}")
    times = [time for time, _ in samples]
    groups: dict[tuple, list[tuple[int, int]]] = {}  # of a launch: clock and duration
    for row in recording.kernels.rows(named=True):
        place = bisect_left(times, (row["start_ns"] + row["end_ns"]) // 2)
        if row["device"] == device and place < len(times):
            key = tuple(row[name] for name in _LIKE)
            groups.setdefault(key, []).append((samples[place][1], row["duration_ns"]))
    lost = weighted = worked = 0.0
    for launches in groups.values():
        highest = max(clock for clock, _ in launches)
        full = [ns for clock, ns in launches if clock >= (1 - CLOCK_FLOOR) * highest]
        if len(full) < REFERENCE_LAUNCHES:
            continue
        reference = statistics.median(full)
        for clock, ns in launches:
            if clock < (1 - CLOCK_FLOOR) * highest:
                lost += max(0, min(ns - reference, ns * (1 - clock / highest)))
            weighted += ns * clock / highest
            worked += ns
    window = max(row["end_ns"] for row in rows) - min(row["start_ns"] for row in rows)
    share = round(lost) / window
    margin = share - HEALTHY_FLOOR_RATIO
    category, advice = "healthy", "none"
    if margin >= 0:
        category = "throttled"
        advice = "ask for less power (precision, fewer bytes), or compare runs at this clock"
    if abs(margin) <= BORDERLINE_RATIO:
        advice = f"borderline: {advice}"
    return Finding(
        category,
        f"device:{device}",
        {
            "recoverable_ns": round(lost),
            "window_ns": window,
            "recoverable_ratio": share,
            "margin_ratio": margin,
            "clock_ratio": weighted / worked if worked else 1.0,
        },
        advice,
    )
