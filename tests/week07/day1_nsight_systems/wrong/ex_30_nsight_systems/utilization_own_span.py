"""Divides by the time from a device's own first operation to its last."""

from __future__ import annotations

CAUGHT_BY = "test_all_devices_have_the_same_window"
SAYS = "the window is the same for all devices"


def utilization(capture: str, nvtx_range: str | None = None) -> dict[int, float]:
    out = {}
    start, end = find_window(capture, nvtx_range)
    for device, (starts, ends) in _busy_intervals(capture, start, end).items():
        if len(starts):
            out[device] = float((ends - starts).sum() / (ends[-1] - starts[0]))
    return out
