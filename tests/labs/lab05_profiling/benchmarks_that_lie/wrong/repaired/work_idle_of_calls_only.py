"""Counts only calls as work, so that a compilation or a copy looks like idling."""

from __future__ import annotations

import statistics
from typing import Any

CAUGHT_BY = "test_the_work_of_recorded_benchmarks"
SAYS = "nothing in the log fits"


def work_faults(log: dict[str, Any], latency: bool = False, cold: bool = False) -> list[str]:
    calls = [o for o in log["operations"] if o["kind"] == "call" and o["region"] is not None]
    found = _without_idle(log, cold)
    for region in log["regions"]:
        busy_ns = sum(_shared_ns(region, o) for o in calls)
        if not latency and busy_ns < 0.9 * (region["end_ns"] - region["start_ns"]):
            found.add("idle")
    return [name for name in ("idle", "warm_cache", "zeros", "not_steady") if name in found]


def _without_idle(log: dict[str, Any], cold: bool) -> set[str]:
    found, in_cache, times = set(), set(), []
    for operation in log["operations"]:
        if operation["kind"] == "flush":
            in_cache.clear()
        if operation["kind"] != "call":
            continue
        if operation["region"] is not None:
            if cold and operation["input"] in in_cache:
                found.add("warm_cache")
            if operation["data"] == "zeros":
                found.add("zeros")
            if operation["start_ns"] is not None:
                times.append(operation["end_ns"] - operation["start_ns"])
        in_cache.add(operation["input"])
    quarter = len(times) // 4
    if quarter >= 2:
        first, last = statistics.median(times[:quarter]), statistics.median(times[-quarter:])
        if first > 1.05 * last:
            found.add("not_steady")
    return found
