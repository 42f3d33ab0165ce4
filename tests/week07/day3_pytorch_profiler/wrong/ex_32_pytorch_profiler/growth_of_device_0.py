"""Looks at device 0 whatever device is asked for."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_growth_of_the_other_device"
SAYS = "expected"


def memory_growth(capture: str, device: int = 0) -> dict[str, Any]:
    trace = _trace(capture)
    steps = _steps(trace["events"], capture)
    ends = _step_end_bytes(trace, steps, 0)
    if len(ends) < 2:
        raise CaptureError(
            f"{capture}: memory events of device {device} in fewer than two steps; "
            "record with profile_memory=True"
        )
    if None in ends:
        raise CaptureError(f"{capture}: its memory events hold no totals (Total Allocated)")
    growth_bytes, length = _growth(ends, _staying_bytes(trace, steps, 0))
    where, where_bytes = _keeping_line(capture, device, steps, trace["epoch_ns"], length)
    return {
        "step_end_bytes": ends,
        "growth_bytes": growth_bytes,
        "where": where,
        "where_bytes": where_bytes,
    }
