from __future__ import annotations

CAUGHT_BY = "test_verdict_on_drawn_samples"
SAYS = "launching thread, taken while the device is idle"


def host_verdict(capture: str, floor_ratio: float = 0.1) -> Finding:
    if not 0 < floor_ratio < 1:
        raise ValueError("floor_ratio must lie above 0 and below 1")
    sampled = samples(capture, "python")
    with captures.open(capture) as recording:
        frames = (recording.kernels, recording.copies, recording.memsets)
        launched = set(recording.kernels.select("process", "correlation").rows())
        api = recording.api_calls.select("process", "correlation", "thread").rows()
    launches = [thread for process, number, thread in api if (process, number) in launched]
    if not launches:
        raise EmptyCapture(f"{capture}: holds no kernel with the call that launched it")
    launching = launches[0]
    operations = [row for frame in frames for row in frame.select("start_ns", "end_ns").rows()]
    idle: list[tuple[int, int]] = []
    first, reach = min(operations)
    for start, end in sorted(operations):
        if start > reach:
            idle.append((reach, start))
        reach = max(reach, end)
    hits = Counter(
        sample.frames[0]
        for sample in sampled
        if sample.thread == launching and any(a <= sample.time_ns < b for a, b in idle)
    )
    idle_ns, count = sum(b - a for a, b in idle), sum(hits.values())
    hot = min(hits, key=lambda name: (-hits[name], name), default="")
    evidence = {
        "recoverable_ns": idle_ns * hits[hot] / count if count else 0,
        "window_ns": reach - first,
        "idle_ns": idle_ns,
        "sample_count": count,
        "hot_count": hits[hot],
        "low_ratio": share_interval(hits[hot], count)["low_ratio"] if count else 0,
    }
    if evidence["recoverable_ns"] < floor_ratio * evidence["window_ns"]:
        return Finding("healthy", "device:0", evidence)
    return Finding("host_bound", "device:0", evidence, f"make {hot} faster, or run it ahead")
