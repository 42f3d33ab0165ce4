"""Names the same kernel in every finding."""

from __future__ import annotations

import math

from profiling_lab import devices
from profiling_lab.findings import Finding

CAUGHT_BY = "test_each_class_once"
SAYS = "subject is"


def classify_bound(
    name: str,
    cost: Cost,
    dtype: str,
    device: str,
    device_ns: float,
    host_ns: float | None = None,
) -> Finding:
    for label, value in (("device_ns", device_ns), ("host_ns", host_ns)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{label} is {value!r}: a time above 0 is needed")
    found = devices.get(device)
    memory = cost["bytes"] / found.memory_bandwidth_bytes_per_s * 1e9
    compute = cost["flops"] / found.peak(dtype) * 1e9
    roof = predicted_time_ns([cost], device, dtype)
    if device_ns < roof:
        raise ValueError(f"{name}: {device_ns} ns is faster than the roof of {roof} ns allows")
    window = _window(device_ns, host_ns)
    parts = {
        "memory_bound" if memory > compute else "compute_bound": roof,
        "latency_bound": device_ns - roof,
        "launch_bound": window - device_ns,
    }
    category = max(parts, key=lambda part: parts[part])
    largest, second, _ = sorted(parts.values(), reverse=True)
    margin = (largest - second) / window
    recommendation = _NEXT_STEPS[category]
    if margin <= BORDERLINE_RATIO:
        recommendation = (
            f"borderline ({margin:.1%} between the two largest parts): {recommendation}"
        )
    return Finding(
        category,
        "kernel:op",
        {
            "window_ns": window,
            "idle_ns": window - device_ns,
            "memory_ns": memory,
            "compute_ns": compute,
            "above_roof_ns": device_ns - roof,
            "recoverable_ns": window - roof,
            "margin_ratio": margin,
        },
        recommendation,
    )
