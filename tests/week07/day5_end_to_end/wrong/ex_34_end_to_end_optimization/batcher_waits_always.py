"""Waits for max_wait_ns even when the batch is full."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

CAUGHT_BY = "test_batches_by_hand"
SAYS = "are there at"


def simulate_batcher(
    arrival_ns: Sequence[int], service_ns: dict[int, int], max_batch: int, max_wait_ns: int
) -> dict[str, list[int]]:
    if any(later < earlier for earlier, later in pairwise(arrival_ns)):
        raise ValueError("arrival_ns must be ascending")
    if not service_ns or min(service_ns) < 1 or not all(t > 0 for t in service_ns.values()):
        raise ValueError("service_ns must hold sizes of 1 or more and times above 0")
    if not 1 <= max_batch <= max(service_ns):
        raise ValueError(f"max_batch must be from 1 to {max(service_ns)}, got {max_batch}")
    if max_wait_ns < 0:
        raise ValueError(f"max_wait_ns must not be negative, got {max_wait_ns}")
    out: dict[str, list[int]] = {"start_ns": [], "end_ns": [], "batch": []}
    free, first = min(arrival_ns, default=0), 0
    while first < len(arrival_ns):
        ready = arrival_ns[first] + max_wait_ns
        start = max(ready, free)
        size = sum(arrival <= start for arrival in arrival_ns[first : first + max_batch])
        free = start + service_ns[min(s for s in service_ns if s >= size)]
        out["start_ns"] += [start] * size
        out["end_ns"] += [free] * size
        out["batch"] += [size] * size
        first += size
    return out
