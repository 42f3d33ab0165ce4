"""Counts kernels only as busy."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_breakdown_of_streams_and_devices"
SAYS = "Copies and memsets keep a device busy"


def step_breakdown(capture: str) -> list[dict[str, Any]]:
    events = _trace(capture)["events"]
    steps = _steps(events, capture)
    work = [event for event in events if event["kind"] in DEVICE_KINDS]
    if not work:
        raise CaptureError(
            f"{capture}: holds no device operation; record with ProfilerActivity.CUDA, on a GPU"
        )
    out = []
    for number, start, end in steps:
        for device in sorted({event["device"] for event in work}):
            here = [event for event in work if event["device"] == device]
            busy_ns = _union_ns([e for e in here if e["kind"] == "kernel"], start, end)
            out.append(
                {
                    "step": number,
                    "device": device,
                    "step_ns": end - start,
                    "busy_ns": busy_ns,
                    "kernel_ns": _union_ns([e for e in here if e["kind"] == "kernel"], start, end),
                    "idle_ratio": 1 - busy_ns / (end - start),
                }
            )
    return out
