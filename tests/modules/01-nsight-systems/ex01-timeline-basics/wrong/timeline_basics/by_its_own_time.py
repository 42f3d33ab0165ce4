"""Gives an operation to the range that is open when it runs, not when it is launched."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_who_launched_it"
SAYS = "expected"


def work_per_range(capture: str) -> dict[str, dict[str, int]]:
    recording = captures.open(capture)
    ranges = recording.nvtx_ranges.rows(named=True)
    out: dict[str, dict[str, int]] = {}
    for operation in recording.device_operations.rows(named=True):
        found = [r for r in ranges if r["start_ns"] <= operation["start_ns"] < r["end_ns"]]
        name = found[-1]["name"] if found else ""
        entry = out.setdefault(name, {"operations_count": 0, "device_ns": 0})
        entry["operations_count"] += 1
        entry["device_ns"] += operation["duration_ns"]
    return out
