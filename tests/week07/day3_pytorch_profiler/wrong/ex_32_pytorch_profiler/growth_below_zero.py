"""Calls it growth when memory shrinks."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_growth_of_memory_that_shrinks"
SAYS = "expected 0"


def memory_growth(capture: str, device: int = 0) -> dict[str, Any]:
    trace = _trace(capture)
    steps = _steps(trace["events"], capture)
    ends = _step_end_bytes(trace, steps, device)
    if len(ends) < 2:
        raise CaptureError(
            f"{capture}: memory events of device {device} in fewer than two steps; "
            "record with profile_memory=True"
        )
    if None in ends:
        raise CaptureError(f"{capture}: its memory events hold no totals (Total Allocated)")
    where, where_bytes = _keeping_line(capture, device, steps, trace["epoch_ns"])
    return {
        "step_end_bytes": ends,
        "growth_bytes": min(b - a for a, b in itertools.pairwise(ends)),
        "where": where,
        "where_bytes": where_bytes,
    }
