"""Calls a window without length idle."""

from __future__ import annotations

CAUGHT_BY = "test_window_without_length_is_refused"
SAYS = "it must raise ValueError"


def utilization(capture: str, nvtx_range: str | None = None) -> dict[int, float]:
    start, end = find_window(capture, nvtx_range)
    busy = busy_time(capture, nvtx_range)
    return {device: busy_ns / max(1, end - start) for device, busy_ns in busy.items()}
