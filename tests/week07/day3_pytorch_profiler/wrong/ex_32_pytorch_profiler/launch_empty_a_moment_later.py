"""Asks the device to be empty before the call begins, and not when it does."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

CAUGHT_BY = "test_launches_of_graphs_and_devices"
SAYS = "starved_ratio"


def launch_bound(capture: str) -> dict[str, Any]:
    events = _trace(capture)["events"]
    start, end = _window(events, capture)
    calls = {
        event["correlation"]: event
        for event in events
        if event["kind"] == "call" and start <= event["start_ns"] < end
    }
    kernels = starved = 0
    launches = set()
    reach: dict[int, int] = defaultdict(int)  # when all that started before has ended, a device
    for event in events:
        if event["kind"] not in DEVICE_KINDS:
            continue
        call = calls.get(event["correlation"])
        if event["kind"] == "kernel" and call is not None:
            kernels += 1
            starved += call["start_ns"] > reach[event["device"]]
            launches.add(event["correlation"])
        reach[event["device"]] = max(reach[event["device"]], event["end_ns"])
    if not kernels:
        raise CaptureError(f"{capture}: no kernel was issued in the steps")
    recoverable_ns = recoverable_time(capture)["launch_cost"]
    ratio = recoverable_ns / (end - start)
    return {
        "launch_bound": ratio >= HEALTHY_FLOOR_RATIO,
        "recoverable_ns": recoverable_ns,
        "window_ns": end - start,
        "recoverable_ratio": ratio,
        "kernel_count": kernels,
        "starved_ratio": starved / kernels,
        "launches_per_step": len(launches) / len(_steps(events, capture)),
    }
