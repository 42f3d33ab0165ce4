"""Charges the host with gaps between operations that were queued long before."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_recorded_idle"
SAYS = "The host was not late there"


def idle_by_host(capture: str, device: int = 0, start_ns: int = 0) -> dict[str, Any]:
    gaps = _gaps(capture, device, start_ns)
    during: dict[str, int] = {}
    opened_by: dict[str, int] = {}
    for gap in gaps:
        outside = gap.length_ns
        for name, inside in gap.calls:
            during[name] = during.get(name, 0) + inside
            outside -= inside
        during[""] = during.get("", 0) + outside
        opened_by[gap.opener] = opened_by.get(gap.opener, 0) + gap.length_ns
    return {
        "idle_ns": sum(gap.length_ns for gap in gaps),
        "queued_ns": 0,
        "during": {name: ns for name, ns in during.items() if ns},
        "opened_by": opened_by,
    }
