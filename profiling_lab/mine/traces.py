"""What `read_trace` of the course returns: whether it can be read, and its window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profiling_lab.captures import kineto

NEEDED = ("kind", "name", "start_ns", "end_ns")


def problem(trace: Any) -> str:
    """What keeps a trace from being drawn, as a clause; "" if nothing does."""
    events = trace.get("events") if isinstance(trace, Mapping) else None
    if not isinstance(events, Sequence) or not events:
        return 'no list "events" with something in it'
    for event in events:
        if not isinstance(event, Mapping) or any(key not in event for key in NEEDED):
            return f"an event without one of {', '.join(NEEDED)}"
        if type(event["start_ns"]) is not int or type(event["end_ns"]) is not int:
            return "an event whose start_ns or end_ns is no integer"
        if event["kind"] in kineto.DEVICE_KINDS and type(event.get("device")) is not int:
            return f"a {event['kind']} without its device"
    return ""


def window_of(events: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """From the first to the last of the profiler's steps; without steps, of all events."""
    events = list(events)
    steps = [event for event in events if kineto.STEP_RANGE.match(str(event["name"]))]
    host = [event for event in steps if event["kind"] in ("range", "operator")] or events
    return min(event["start_ns"] for event in host), max(event["end_ns"] for event in host)
