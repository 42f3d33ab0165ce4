"""Looks at what was issued in a region only, never at what else ran in it."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_the_clock_of_recorded_benchmarks"
SAYS = "it misses something"


def time_faults(log: dict[str, Any]) -> list[str]:
    found = set()
    for operation in log["operations"]:
        own, start = operation["region"], operation["start_ns"]
        if own is None:
            continue
        if operation["kind"] != "call":
            found.add("extra_work")
        elif start is None:
            found.add("not_run")
        elif operation["end_ns"] > log["regions"][own]["end_ns"]:
            found.add("unfinished")
    return [name for name in ("unfinished", "extra_work", "not_run") if name in found]
