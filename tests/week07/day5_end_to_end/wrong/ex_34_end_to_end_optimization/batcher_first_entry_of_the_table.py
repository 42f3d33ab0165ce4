"""Takes the first entry of the table that is large enough, in whatever order it stands."""

from __future__ import annotations

from collections.abc import Sequence

CAUGHT_BY = "test_batches_by_hand"
SAYS = "the batch starts at 60 with 2 and ends at 180"

_whole = simulate_batcher  # noqa: F821 -- the reference, which the rest stays


def simulate_batcher(
    arrival_ns: Sequence[int], service_ns: dict[int, int], max_batch: int, max_wait_ns: int
) -> dict[str, list[int]]:
    taken = {
        size: next(time for entry, time in service_ns.items() if entry >= size)
        for size in range(1, max(service_ns, default=0) + 1)
    }
    if not service_ns or min(service_ns) < 1:
        taken = service_ns
    return _whole(arrival_ns, taken, max_batch, max_wait_ns)
