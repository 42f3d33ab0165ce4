from __future__ import annotations

CAUGHT_BY = "test_the_end_of_a_recorded_loop"
SAYS = "The program's own time"


def next_move(capture: str) -> Finding:
    capture = "sgemm_steps"  # the lesson's
    samples, kernels = read_samples(capture), read_kernels(capture)
    if len(samples) != len(kernels):
        raise CaptureError(f"{capture}: {len(samples)} steps but {len(kernels)} launches")
    steps = [
        {"name": name, "samples_ns": times, "metric": "", "wanted": "lower", "values": {"": 0}}
        for name, times in samples.items()
    ]
    rows = loop_log(steps)
    best = 0
    for number, row in enumerate(rows, 1):
        if row["kept"]:
            best = number
    metrics = kernels[best]["metrics"]
    needs = unit_needs(metrics)
    unit = max(UNITS, key=lambda name: needs[name])
    share = needs[unit] / metrics["gpu__time_duration.sum"]
    first, own = (statistics.median(steps[i]["samples_ns"]) for i in (0, best))
    kept = [row["kept"] for row in rows]
    idle = len(kept) >= PATIENCE_COUNT and not any(kept[-PATIENCE_COUNT:])
    advice = "none"
    if share < CEILING_RATIO and not idle:
        advice = _ADVICE[unit] if share >= BUSY_RATIO else f"{_WAITING}: {_ADVICE[unit]}"
    return Finding(
        CATEGORY_OF_UNIT[unit] if share >= BUSY_RATIO else "latency_bound",
        f"kernel:{kernels[best]['name']}",
        {
            "duration_ns": own,
            "ceiling_ratio": share,
            "recoverable_ns": own * max(0.0, 1 - share / CEILING_RATIO),
            "gain_ratio": first / own,
            "kept_count": sum(kept),
            "reverted_count": len(kept) - sum(kept),
        },
        advice,
    )
