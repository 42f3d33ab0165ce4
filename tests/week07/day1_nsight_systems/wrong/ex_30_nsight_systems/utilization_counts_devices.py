"""Numbers the devices from 0 on."""

from __future__ import annotations

CAUGHT_BY = "test_utilization_of_each_device_by_its_number"
SAYS = "which need not begin at 0"


def utilization(capture: str, nvtx_range: str | None = None) -> dict[int, float]:
    start, end = find_window(capture, nvtx_range)
    if end <= start:
        raise ValueError("no length")
    return {i: n / (end - start) for i, n in enumerate(busy_time(capture, nvtx_range).values())}
