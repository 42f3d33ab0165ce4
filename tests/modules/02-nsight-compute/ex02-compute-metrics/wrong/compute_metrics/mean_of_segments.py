# Every segment counts the same, however long it is.
from __future__ import annotations

CAUGHT_BY = "test_warps_that_go_different_ways"
SAYS = "A long segment with few lanes weighs more"


def divergence_cost(segments: Sequence[tuple[int, int]]) -> dict[str, float]:
    for lanes, instructions in segments:
        if not 1 <= lanes <= WARP_THREADS:
            raise ValueError(f"a segment runs with 1 to {WARP_THREADS} lanes, got {lanes}")
        if instructions < 0:
            raise ValueError(f"a segment has 0 instructions or more, got {instructions}")
    issued = sum(instructions for _, instructions in segments)
    if not issued:
        raise ValueError("the warp executes 0 instructions; give at least one segment with some")
    lanes = sum(lanes for lanes, _ in segments) / len(segments)
    return {
        "instructions_count": issued,
        "lanes_count": lanes,
        "slowdown_ratio": WARP_THREADS / lanes,
    }
