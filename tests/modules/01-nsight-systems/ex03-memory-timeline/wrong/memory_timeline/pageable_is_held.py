"""Decides by the memory and not by the call: everything pageable held the host for all of it."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_calls_and_copies"
SAYS = "still inside"


def async_in_name_only(capture: str) -> dict[str, dict[str, int]]:
    calls = {
        (c["process"], c["correlation"]): c
        for c in captures.open(capture).api_calls.rows(named=True)
    }
    out: dict[str, dict[str, int]] = {}
    for copy in _copies(capture):
        call = calls.get((copy["process"], copy["correlation"]))
        if call is None or "Async" not in call["name"]:
            continue
        entry = out.setdefault(_path(copy), {"copies_count": 0, "copy_ns": 0, "held_ns": 0})
        entry["copies_count"] += 1
        entry["copy_ns"] += copy["duration_ns"]
        entry["held_ns"] += copy["duration_ns"] if _memory(copy) == "pageable" else 0
    return out
