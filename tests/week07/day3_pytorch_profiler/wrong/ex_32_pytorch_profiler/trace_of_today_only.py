"""Knows today's categories only."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_an_older_trace"
SAYS = "in either spelling"


def read_trace(capture: str) -> dict[str, Any]:
    file = captures.file(capture, "trace.json")
    try:
        # Numbers stay decimal: as floats, µs since the machine started are off by a ns.
        data = json.loads(captures.text(capture, "trace.json"), parse_float=Decimal)
    except ValueError as error:
        raise CaptureError(f"{file}: is no JSON, or cut off ({error})") from None
    recorded = data.get("traceEvents") if isinstance(data, dict) else None
    if not isinstance(recorded, list):
        raise CaptureError(f"{file}: holds no list traceEvents; is it a trace of torch.profiler?")
    events, memory = [], []
    for raw in recorded:
        if not isinstance(raw, dict):
            continue
        kind = KIND_OF_CATEGORY.get(str(raw.get("cat")))
        if raw.get("ph") == "X" and kind is not None:
            events.append(_event(raw, kind, file))
        elif raw.get("ph") == "i" and raw.get("name") == "[memory]":
            memory.append(_memory_event(raw, file))
    if not events:
        raise CaptureError(f"{file}: traceEvents holds no operator, call, kernel or range")
    base = data.get("baseTimeNanoseconds")
    first = min(event["start_ns"] for event in events)
    for event in events:
        event["start_ns"] -= first
        event["end_ns"] -= first
    for event in memory:
        event["time_ns"] -= first
    return {
        "events": sorted(events, key=lambda e: (e["start_ns"], -e["end_ns"])),
        "memory": sorted(memory, key=lambda e: e["time_ns"]),
        "devices": data.get("deviceProperties"),
        "epoch_ns": base + first if isinstance(base, int) else None,
    }
