"""Takes a device for idle while it does what was issued before the steps."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_savings_on_a_busy_device"
SAYS = "more than a device was idle"


def _least_idle_ns(events: list[dict[str, Any]], window: tuple[int, int], devices: set[int]) -> int:
    start, end = window
    issued = {
        e["correlation"] for e in events if e["kind"] == "call" and start <= e["start_ns"] < end
    }
    work = [e for e in events if e["kind"] in DEVICE_KINDS and e["correlation"] in issued]
    most = max(
        _union_ns([e for e in work if e["device"] == device], start, end)
        for device in {e["device"] for e in work}
    )
    return end - start - most
