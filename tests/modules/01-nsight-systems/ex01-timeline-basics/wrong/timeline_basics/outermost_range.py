"""Gives an operation to the outermost range that is open at its launch."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_who_launched_it"
SAYS = "returned the names"


def work_per_range(capture: str) -> dict[str, dict[str, int]]:
    ranges = _by_thread(captures.open(capture).nvtx_ranges.rows(named=True))
    out: dict[str, dict[str, int]] = {}
    for operation, call in _launched(capture):
        found = []
        if call is not None:
            found = [r for r in ranges.get(_thread(call), []) if _holds(r, call["start_ns"])]
        name = found[0]["name"] if found else ""
        entry = out.setdefault(name, {"operations_count": 0, "device_ns": 0})
        entry["operations_count"] += 1
        entry["device_ns"] += operation["duration_ns"]
    return out
