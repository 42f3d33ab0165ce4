"""Gives out shared memory to the byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CAUGHT_BY = "test_blocks_at_the_limits"
SAYS = "given out in whole units"


def occupancy_table(
    compute_capability: str,
    block_sizes: Sequence[int],
    thread_registers: int,
    shared_bytes: int = 0,
) -> list[dict[str, Any]]:
    if compute_capability not in SM_LIMITS:
        raise ValueError(f"no limits of {compute_capability!r}; known: {', '.join(SM_LIMITS)}")
    if not all(1 <= threads <= MAX_BLOCK_THREADS for threads in block_sizes):
        raise ValueError(f"a block has 1 to {MAX_BLOCK_THREADS} threads, not {list(block_sizes)}")
    if not 1 <= thread_registers <= MAX_THREAD_REGISTERS:
        raise ValueError(f"a thread has 1 to {MAX_THREAD_REGISTERS} registers")
    if shared_bytes < 0:
        raise ValueError(f"shared_bytes must not be negative, not {shared_bytes}")
    sm = SM_LIMITS[compute_capability]
    warp_registers = _round_up(thread_registers * WARP_THREADS, WARP_REGISTER_UNIT)
    fitting_warps = PARTITION_REGISTERS // warp_registers * SM_PARTITIONS
    taken = shared_bytes + sm["reserved_shared_bytes"]
    rows = []
    for threads in block_sizes:
        warps = math.ceil(threads / WARP_THREADS)
        limits = {
            "warps": sm["warps"] // warps,
            "blocks": sm["blocks"],
            "registers": fitting_warps // warps,
        }
        if shared_bytes > sm["block_shared_bytes"]:
            limits["shared"] = 0
        elif taken:
            limits["shared"] = sm["shared_bytes"] // taken
        blocks = min(limits.values())
        rows.append(
            {
                "block_threads": threads,
                "blocks_count": blocks,
                "warps_count": blocks * warps,
                "occupancy_ratio": blocks * warps / sm["warps"],
                "limiters": [name for name, limit in limits.items() if limit == blocks],
            }
        )
    return rows
