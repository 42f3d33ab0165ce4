"""Takes an operation that ends as the region begins for one that ran in it."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_the_clock_to_the_nanosecond"
SAYS = "nothing in the log fits"


def _shared_ns(region: dict[str, int], operation: dict[str, Any]) -> int:
    start_ns, end_ns = operation["start_ns"], operation["end_ns"]
    if start_ns is None:
        return 0
    return int(end_ns >= region["start_ns"] and start_ns <= region["end_ns"])


def time_faults(log: dict[str, Any]) -> list[str]:
    regions, found = log["regions"], set()
    for operation in log["operations"]:
        own, start, end = operation["region"], operation["start_ns"], operation["end_ns"]
        if own is not None and operation["kind"] != "call":
            found.add("extra_work")
        elif own is not None and start is None:
            found.add("not_run")
        elif own is not None and not _inside(regions[own], start, end):
            found.add("unfinished")
        for number, region in enumerate(regions):
            if number != own and _shared_ns(region, operation):
                found.add("foreign_work")
    names = ("unfinished", "foreign_work", "extra_work", "not_run")
    return [name for name in names if name in found]
