"""Knows one name of the calls that are asynchronous."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_calls_and_copies"
SAYS = "Async in its name issued"


def async_in_name_only(capture: str) -> dict[str, dict[str, int]]:
    calls = {
        (c["process"], c["correlation"]): c
        for c in captures.open(capture).api_calls.rows(named=True)
    }
    out: dict[str, dict[str, int]] = {}
    for copy in _copies(capture):
        call = calls.get((copy["process"], copy["correlation"]))
        if call is None or call["name"] != "cudaMemcpyAsync":
            continue
        entry = out.setdefault(_path(copy), {"copies_count": 0, "copy_ns": 0, "held_ns": 0})
        end = min(copy["end_ns"], call["end_ns"])
        entry["copies_count"] += 1
        entry["copy_ns"] += copy["duration_ns"]
        entry["held_ns"] += max(0, end - max(copy["start_ns"], call["start_ns"]))
    return out
