"""Takes the time between two rows of the table for a gap, whatever ran longer on another stream."""

from __future__ import annotations

from typing import Any

from profiling_lab import captures
from profiling_lab.errors import EmptyCapture

CAUGHT_BY = "test_the_gap_after_a_wait"
SAYS = "on whatever stream"


def idle_by_host(capture: str, device: int = 0, start_ns: int = 0) -> dict[str, Any]:
    launched = [(o, c) for o, c in _launched(capture) if o["device"] == device]
    if not launched:
        raise EmptyCapture(f"{capture}: nothing ran on device {device}")
    calls = captures.open(capture).api_calls.rows(named=True)
    during: dict[str, int] = {}
    opened_by: dict[str, int] = {}
    idle = 0
    for (before, _), (operation, launching) in zip(launched, launched[1:], strict=False):
        start, end = before["end_ns"], operation["start_ns"]
        if end <= start or start < start_ns:
            continue
        own = [c for c in calls if launching is not None and _thread(c) == _thread(launching)]
        opener, outside = "", end - start
        for call in _outermost(own):
            inside = min(end, call["end_ns"]) - max(start, call["start_ns"])
            if inside > 0:
                during[call["name"]] = during.get(call["name"], 0) + inside
                outside -= inside
                opener = call["name"] if call["start_ns"] <= start else opener
        during[""] = during.get("", 0) + outside
        opened_by[opener] = opened_by.get(opener, 0) + end - start
        idle += end - start
    return {
        "idle_ns": idle,
        "during": {name: ns for name, ns in during.items() if ns},
        "opened_by": opened_by,
    }
