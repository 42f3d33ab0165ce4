"""Adds up what each process has on the device."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_processes_share_a_device"
SAYS = "at the same time count"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    out = {}
    for (device, _), own in rows.group_by("device", "process"):
        out[device] = out.get(device, 0) + _union_ns(own, start, end)
    return out
