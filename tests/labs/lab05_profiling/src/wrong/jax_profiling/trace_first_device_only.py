"""Takes the first device for the only one."""

from __future__ import annotations

import json
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture

CAUGHT_BY = "test_drawn_trace"
SAYS = "of each device"


def trace_summary(capture: str) -> dict[str, Any]:
    try:
        events = json.loads(captures.text(capture, "jax_trace.json"))["traceEvents"]
        named = [event for event in events if event.get("ph") == "M"]
        happened = [event for event in events if event.get("ph") == "X"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CaptureError(f"{capture}: is no trace for Perfetto ({error})") from None
    devices = {
        event["pid"]
        for event in named
        if event["name"] == "process_name" and event["args"]["name"].startswith("/device:GPU:0")
    }
    streams = {
        (event["pid"], event["tid"])
        for event in named
        if event["name"] == "thread_name"
        and event["pid"] in devices
        and event["args"]["name"].startswith("Stream")
    }
    steps = [
        event
        for event in happened
        if "step_num" in event.get("args", {}) and event["pid"] not in devices
    ]
    if not steps:
        raise EmptyCapture(f"{capture}: no steps; were they annotated?")
    begin = min(step["ts"] for step in steps)
    end = max(step["ts"] + step["dur"] for step in steps)
    work = sorted(
        (event["ts"], min(event["ts"] + event["dur"], end), event["name"])
        for event in happened
        if (event["pid"], event["tid"]) in streams and begin <= event["ts"] < end
    )
    if not work:
        raise EmptyCapture(f"{capture}: no device worked in the steps")
    busy = 0.0
    until = begin
    totals: dict[str, tuple[int, float]] = {}
    for first, last, name in work:
        busy += max(last - max(first, until), 0.0)
        until = max(until, last)
        count, total = totals.get(name, (0, 0.0))
        totals[name] = (count + 1, total + last - first)
    ranked = sorted(totals.items(), key=lambda item: (-item[1][1], item[0]))
    return {
        "step_count": len(steps),
        "window_ns": 1e3 * (end - begin),
        "busy_ns": 1e3 * busy,
        "busy_ratio": busy / (end - begin),
        "launch_count": len(work),
        "kernels": [
            {"name": name, "count": count, "total_ns": 1e3 * total}
            for name, (count, total) in ranked
        ],
    }
