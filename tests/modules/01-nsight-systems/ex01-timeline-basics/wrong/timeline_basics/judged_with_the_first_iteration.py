"""Judges the whole recording, the first iteration with it."""

from __future__ import annotations

from profiling_lab import captures
from profiling_lab.findings import Finding

CAUGHT_BY = "test_equal_causes_and_the_floor"
SAYS = "begins when the first iteration is over on the device"


def read_timeline(capture: str, nvtx_range: str) -> Finding:
    first = first_iteration_cost(capture, nvtx_range)
    start = captures.open(capture).span_ns[0]
    gaps = _gaps(capture, 0, start)
    saved = dict.fromkeys(_RECOMMENDATIONS, 0)
    for gap in gaps:
        if not gap.queued:
            allocating = sum(ns for name, ns in gap.calls if call_kind(name) == "allocation")
            saved["allocation_bound"] += allocating
            saved[_category(gap)] += gap.length_ns - allocating
    operations = captures.open(capture).device_operations.rows(named=True)
    window = max(o["end_ns"] for o in operations if o["device"] == 0) - start
    category = max(saved, key=lambda name: saved[name])
    ratio = saved[category] / window
    evidence = {
        "recoverable_ns": saved[category],
        "window_ns": window,
        "recoverable_ratio": ratio,
        "idle_ns": sum(gap.length_ns for gap in gaps),
        "first_iteration_excess_ns": first["excess_ns"],
    }
    if ratio < HEALTHY_FLOOR_RATIO:
        return Finding("healthy", "device:0", evidence, "none")
    return Finding(category, "device:0", evidence, _RECOMMENDATIONS[category])
