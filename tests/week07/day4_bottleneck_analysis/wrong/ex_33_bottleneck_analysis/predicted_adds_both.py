"""Adds traffic and arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from profiling_lab import devices

CAUGHT_BY = "test_the_slower_of_both_counts"
SAYS = "Traffic and arithmetic overlap"


def predicted_time_ns(costs: Sequence[Cost], device: str, dtype: str) -> float:
    if not costs:
        raise ValueError("no costs: there is nothing to predict a time of")
    found = devices.get(device)
    total = 0.0
    for cost in costs:
        if min(cost["flops"], cost["bytes"]) < 0 or not cost["flops"] + cost["bytes"]:
            raise ValueError(f"a cost of {cost!r} is that of no kernel")
        total += cost["flops"] / found.peak(dtype)
        total += cost["bytes"] / found.memory_bandwidth_bytes_per_s
    return total * 1e9
