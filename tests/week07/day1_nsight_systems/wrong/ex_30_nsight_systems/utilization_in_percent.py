"""Returns percentages."""

from __future__ import annotations

CAUGHT_BY = "test_all_devices_have_the_same_window"
SAYS = "a share of 1.0 is all of it"


def utilization(capture: str, nvtx_range: str | None = None) -> dict[int, float]:
    start, end = find_window(capture, nvtx_range)
    busy = busy_time(capture, nvtx_range)
    return {device: 100 * busy_ns / (end - start) for device, busy_ns in busy.items()}
