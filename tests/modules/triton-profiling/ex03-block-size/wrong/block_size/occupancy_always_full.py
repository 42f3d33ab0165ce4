"""Believes the table of a source: every block size fills the SM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CAUGHT_BY = "test_the_table_of_the_source"
SAYS = "blocks on an SM, expected"


def occupancy_table(
    compute_capability: str,
    block_sizes: Sequence[int],
    thread_registers: int,
    shared_bytes: int = 0,
) -> list[dict[str, Any]]:
    rows = []
    for threads in block_sizes:
        blocks = 2048 // threads
        rows.append(
            {
                "block_threads": threads,
                "blocks_count": blocks,
                "warps_count": 64,
                "occupancy_ratio": 1.0,
                "limiters": ["warps"],
            }
        )
    return rows
