"""Says that a gap was opened by the call that filled most of it."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_the_gap_after_a_wait"
SAYS = "at the moment at which the gap began"


def idle_by_host(capture: str, device: int = 0, start_ns: int = 0) -> dict[str, Any]:
    gaps = _gaps(capture, device, start_ns)
    during: dict[str, int] = {}
    opened_by: dict[str, int] = {}
    for start, end, calls in gaps:
        own: dict[str, int] = {"": end - start}
        for call in calls:
            inside = min(end, call["end_ns"]) - max(start, call["start_ns"])
            own[call["name"]] = own.get(call["name"], 0) + inside
            own[""] -= inside
        for name, ns in own.items():
            during[name] = during.get(name, 0) + ns
        opener = max(own, key=lambda name: own[name])
        opened_by[opener] = opened_by.get(opener, 0) + end - start
    return {
        "idle_ns": sum(end - start for start, end, _ in gaps),
        "during": {name: ns for name, ns in during.items() if ns},
        "opened_by": opened_by,
    }
