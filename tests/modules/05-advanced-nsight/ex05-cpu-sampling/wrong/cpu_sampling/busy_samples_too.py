from __future__ import annotations

CAUGHT_BY = "test_verdict_on_drawn_samples"
SAYS = "taken while the device is idle"


def host_verdict(capture: str, floor_ratio: float = 0.1) -> Finding:
    with captures.open(capture) as recording:
        kernels = recording.kernels.select("start_ns", "end_ns").rows()
    window = max(end for _, end in kernels) - min(start for start, _ in kernels)
    hits = Counter(sample.frames[0] for sample in samples(capture, "python"))
    hot, count = hits.most_common(1)[0][0], sum(hits.values())
    evidence = {
        "recoverable_ns": window * hits[hot] / count,
        "window_ns": window,
        "idle_ns": window,
        "sample_count": count,
        "hot_count": hits[hot],
        "low_ratio": share_interval(hits[hot], count)["low_ratio"],
    }
    return Finding("host_bound", "device:0", evidence, f"make {hot} faster")
