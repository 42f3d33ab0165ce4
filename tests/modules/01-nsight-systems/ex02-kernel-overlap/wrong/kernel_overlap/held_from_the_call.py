"""Counts from the end of the call: time behind the own stream counts as held."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_before_and_behind_the_default_stream"
SAYS = "held_"


def default_stream_waits(capture: str, default_stream: int = 7, device: int = 0) -> dict[str, int]:
    held_count = held_ns = crossing_count = 0
    calls = {
        c["correlation"]: c["end_ns"] for c in captures.open(capture).api_calls.rows(named=True)
    }
    ends = {True: 0, False: 0}
    for operation in _issued(capture, device):
        is_default = operation.stream == default_stream
        other, ready = ends[not is_default], calls[operation.key[1]]
        if other > ready:
            if operation.start_ns >= other:
                held_count += 1
                held_ns += other - ready
            else:
                crossing_count += 1
        ends[is_default] = max(ends[is_default], operation.end_ns)
    return {"held_count": held_count, "held_ns": held_ns, "crossing_count": crossing_count}
