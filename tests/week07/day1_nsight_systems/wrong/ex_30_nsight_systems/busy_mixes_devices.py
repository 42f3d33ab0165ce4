"""Merges the operations of all devices."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_each_device_has_its_own_busy_time"
SAYS = "each device has a time of its own"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    starts, ends = _merge(rows, start, end)
    return dict.fromkeys(sorted(rows["device"].unique().to_list()), int((ends - starts).sum()))
