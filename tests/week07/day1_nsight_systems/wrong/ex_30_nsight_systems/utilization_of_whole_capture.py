"""Divides by the length of the capture, whatever the range."""

from __future__ import annotations

CAUGHT_BY = "test_utilization_of_a_range"
SAYS = "and the window is the range"


def utilization(capture: str, nvtx_range: str | None = None) -> dict[int, float]:
    start, end = find_window(capture)
    busy = busy_time(capture, nvtx_range)
    return {device: busy_ns / (end - start) for device, busy_ns in busy.items()}
