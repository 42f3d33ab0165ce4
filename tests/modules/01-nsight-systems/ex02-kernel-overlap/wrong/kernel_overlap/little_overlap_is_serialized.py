"""Calls streams serialized because they overlap little, whether there was room or not."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_recorded_verdict"
SAYS = "Two bounds"


def judge_streams(capture: str, device: int = 0) -> Finding:
    kernels = _kernels(capture, device)
    found = concurrency(capture, device)
    window = max(k.end_ns for k in kernels) - min(k.start_ns for k in kernels)
    lengths: dict[int, int] = {}
    for kernel in kernels:
        lengths[kernel.stream] = lengths.get(kernel.stream, 0) + kernel.end_ns - kernel.start_ns
    recoverable = found["busy_ns"] - max(lengths.values())
    evidence = {
        "recoverable_ns": recoverable,
        "window_ns": window,
        "recoverable_ratio": recoverable / window,
        "margin_ratio": recoverable / window - HEALTHY_FLOOR_RATIO,
        "average_count": found["average_count"],
        "streams_count": len(lengths),
    }
    if recoverable < HEALTHY_FLOOR_RATIO * window:
        return Finding("healthy", f"device:{device}", evidence, "none")
    return Finding("serialized_streams", f"device:{device}", evidence, "use other streams")
