"""Names the first of several equal limits only."""

from __future__ import annotations

CAUGHT_BY = "test_as_the_occupancy_calculator_says"
SAYS = "limiters"


def theoretical_occupancy(
    compute_capability: str,
    block_threads: int,
    thread_registers: int,
    static_shared_bytes: int = 0,
    dynamic_shared_bytes: int = 0,
    shared_config_bytes: int | None = None,
) -> dict[str, Any]:
    if compute_capability not in SM_LIMITS:
        raise ValueError(
            f"unknown compute capability {compute_capability!r}; known: {', '.join(SM_LIMITS)}"
        )
    sm = SM_LIMITS[compute_capability]
    if not 1 <= block_threads <= MAX_BLOCK_THREADS:
        raise ValueError(f"block_threads must be 1 to {MAX_BLOCK_THREADS}, got {block_threads}")
    if not 0 <= thread_registers <= MAX_THREAD_REGISTERS:
        raise ValueError(
            f"thread_registers must be 0 to {MAX_THREAD_REGISTERS}, got {thread_registers}"
        )
    if min(static_shared_bytes, dynamic_shared_bytes, shared_config_bytes or 0) < 0:
        raise ValueError("shared memory must not be negative")
    steps = [kb * 1024 for kb in sm["shared_steps_kb"]]
    config = steps[-1] if shared_config_bytes is None else shared_config_bytes
    if config > steps[-1]:
        raise ValueError(f"an SM of {compute_capability} has {steps[-1]} bytes, not {config}")

    block_warps = math.ceil(block_threads / WARP_THREADS)
    limits: dict[str, int | None] = {
        "warps": sm["warps"] // block_warps,
        "blocks": sm["blocks"],
        "registers": None,
        "shared": None,
    }
    if thread_registers:
        warp_registers = _round_up(thread_registers * WARP_THREADS, WARP_REGISTER_UNIT)
        if warp_registers * _round_up(block_warps, SM_PARTITIONS) > SM_REGISTERS:
            limits["registers"] = 0
        else:
            partition_warps = SM_REGISTERS // SM_PARTITIONS // warp_registers
            limits["registers"] = partition_warps * SM_PARTITIONS // block_warps
    asked = static_shared_bytes + dynamic_shared_bytes
    needed = _round_up(asked + sm["reserved_kb"] * 1024, sm["shared_unit_bytes"])
    if asked > sm["block_kb"] * 1024:
        limits["shared"] = 0
    elif needed:
        available = next(step for step in steps if step >= max(config, needed))
        limits["shared"] = available // needed
    blocks = min(limit for limit in limits.values() if limit is not None)
    return {
        "blocks_count": blocks,
        "warps_count": blocks * block_warps,
        "occupancy_ratio": blocks * block_warps / sm["warps"],
        "limits": limits,
        "limiters": [name for name, limit in limits.items() if limit == blocks][:1],
    }
