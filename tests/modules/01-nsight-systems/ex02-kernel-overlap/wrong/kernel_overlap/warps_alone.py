"""Counts warps and blocks only: a kernel with many registers looks as if others fitted beside it."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_registers_and_shared_memory_take_room"
SAYS = "have their registers and their shared memory"


def _blocks_per_sm(launch: dict[str, Any], warps_per_sm: int, blocks_per_sm: int) -> int:
    warps = -(-launch["block_x"] * launch["block_y"] * launch["block_z"] // WARP_THREADS)
    return min(blocks_per_sm, warps_per_sm // warps)
