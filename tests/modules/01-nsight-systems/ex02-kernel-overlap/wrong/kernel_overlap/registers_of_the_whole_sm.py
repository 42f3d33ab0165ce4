"""Shares all registers of an SM among warps, as if a warp could lie across two partitions."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_registers_and_shared_memory_take_room"
SAYS = "have their registers and their shared memory"


def _blocks_per_sm(launch: dict[str, Any], warps_per_sm: int, blocks_per_sm: int) -> int:
    warps = -(-launch["block_x"] * launch["block_y"] * launch["block_z"] // WARP_THREADS)
    registers = _rounded_up(launch["registers_per_thread"] * WARP_THREADS, WARP_REGISTER_UNIT)
    if registers:
        warps_per_sm = min(warps_per_sm, SM_PARTITIONS * PARTITION_REGISTERS // registers)
    asked = launch["static_shared_bytes"] + launch["dynamic_shared_bytes"]
    block_bytes = _rounded_up(asked + RESERVED_SHARED_BYTES, SHARED_UNIT_BYTES)
    return max(1, min(blocks_per_sm, warps_per_sm // warps, SHARED_PER_SM_BYTES // block_bytes))
