from __future__ import annotations

CAUGHT_BY = "test_the_end_of_a_made_up_loop"
SAYS = "need not be the last one tried"


def next_move(capture: str) -> Finding:
    samples, kernels = read_samples(capture), read_kernels(capture)
    if len(samples) != len(kernels):
        raise CaptureError(f"{capture}: {len(samples)} steps but {len(kernels)} launches")
    times = list(samples.values())
    best, kept = 0, []
    for number in range(1, len(times)):
        gain, noise = _gain(times[best], times[number])
        kept.append(gain > 1 + noise)
        if kept[-1]:
            best = number
    best = len(times) - 1
    metrics = kernels[best]["metrics"]
    needs = unit_needs(metrics)
    unit = max(UNITS, key=lambda name: needs[name])
    share = needs[unit] / metrics["gpu__time_duration.sum"]
    first, own = (statistics.median(times[i]) for i in (0, best))
    idle = len(kept) >= PATIENCE_COUNT and not any(kept[-PATIENCE_COUNT:])
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
        "none" if idle or share >= CEILING_RATIO else _ADVICE[unit],
    )
