# As if the sides of a branch ran at the same time.
from __future__ import annotations

CAUGHT_BY = "test_warps_that_go_different_ways"
SAYS = "The warp issues each segment once"


def divergence_cost(segments: Sequence[tuple[int, int]]) -> dict[str, float]:
    for lanes, instructions in segments:
        if not 1 <= lanes <= WARP_THREADS:
            raise ValueError(f"a segment runs with 1 to {WARP_THREADS} lanes, got {lanes}")
        if instructions < 0:
            raise ValueError(f"a segment has 0 instructions or more, got {instructions}")
    if not sum(instructions for _, instructions in segments):
        raise ValueError("the warp executes 0 instructions; give at least one segment with some")
    issued = max(instructions for _, instructions in segments)
    lanes = sum(lanes * instructions for lanes, instructions in segments) / issued
    return {
        "instructions_count": issued,
        "lanes_count": lanes,
        "slowdown_ratio": WARP_THREADS / lanes,
    }
