"""Says that a gap was opened by the call that filled most of it."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_the_gap_after_a_wait"
SAYS = "at the moment at which the gap began"


def idle_by_host(capture: str, device: int = 0, start_ns: int = 0) -> dict[str, Any]:
    gaps = _gaps(capture, device, start_ns)
    during: dict[str, int] = {}
    opened_by: dict[str, int] = {}
    for gap in gaps:
        if gap.queued:
            continue
        own = {"": gap.length_ns}
        for name, inside in gap.calls:
            own[name] = own.get(name, 0) + inside
            own[""] -= inside
        for name, ns in own.items():
            during[name] = during.get(name, 0) + ns
        opener = max(own, key=lambda name: own[name])
        opened_by[opener] = opened_by.get(opener, 0) + gap.length_ns
    return {
        "idle_ns": sum(gap.length_ns for gap in gaps),
        "queued_ns": sum(gap.length_ns for gap in gaps if gap.queued),
        "during": {name: ns for name, ns in during.items() if ns},
        "opened_by": opened_by,
    }
