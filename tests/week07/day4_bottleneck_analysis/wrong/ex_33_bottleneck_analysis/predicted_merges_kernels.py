"""Adds all costs up before taking the larger time."""

from __future__ import annotations

from collections.abc import Sequence

from profiling_lab import devices

CAUGHT_BY = "test_kernels_run_one_after_the_other"
SAYS = "do not hide behind the operations"


def predicted_time_ns(costs: Sequence[Cost], device: str, dtype: str) -> float:
    if not costs:
        raise ValueError("no costs: there is nothing to predict a time of")
    found = devices.get(device)
    flops = moved = 0
    for cost in costs:
        if min(cost["flops"], cost["bytes"]) < 0 or not cost["flops"] + cost["bytes"]:
            raise ValueError(f"a cost of {cost!r} is that of no kernel")
        flops += cost["flops"]
        moved += cost["bytes"]
    total = max(flops / found.peak(dtype), moved / found.memory_bandwidth_bytes_per_s)
    return total * 1e9
