"""Takes one flush anywhere for a cold cache everywhere."""

from __future__ import annotations

import statistics
from typing import Any

CAUGHT_BY = "test_the_work_at_its_borders"
SAYS = "it misses something"


def work_faults(log: dict[str, Any], latency: bool = False, cold: bool = False) -> list[str]:
    operations, found, times = log["operations"], set(), []
    for region in log["regions"]:
        busy_ns = sum(_shared_ns(region, o) for o in operations)
        if not latency and busy_ns < 0.9 * (region["end_ns"] - region["start_ns"]):
            found.add("idle")
    inputs = [o["input"] for o in operations if o["kind"] == "call"]
    flushed = any(o["kind"] == "flush" for o in operations)
    if cold and not flushed and len(inputs) != len(set(inputs)):
        found.add("warm_cache")
    for operation in operations:
        if operation["kind"] == "call" and operation["region"] is not None:
            if operation["data"] == "zeros":
                found.add("zeros")
            if operation["start_ns"] is not None:
                times.append(operation["end_ns"] - operation["start_ns"])
    quarter = len(times) // 4
    if quarter >= 2:
        first, last = statistics.median(times[:quarter]), statistics.median(times[-quarter:])
        if first > 1.05 * last:
            found.add("not_steady")
    return [name for name in ("idle", "warm_cache", "zeros", "not_steady") if name in found]
