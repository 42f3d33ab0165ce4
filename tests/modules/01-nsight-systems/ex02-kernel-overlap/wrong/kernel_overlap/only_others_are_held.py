"""Looks at what waits for the default stream, not at what the default stream waits for."""

from __future__ import annotations

CAUGHT_BY = "test_before_and_behind_the_default_stream"
SAYS = "the default stream holds others and is held by them"


def default_stream_waits(capture: str, default_stream: int = 7, device: int = 0) -> dict[str, int]:
    held_count = held_ns = crossing_count = 0
    latest = 0
    for operation in _issued(capture, device):
        if operation.stream == default_stream:
            latest = max(latest, operation.end_ns)
        elif latest > operation.ready_ns:
            if operation.start_ns >= latest:
                held_count += 1
                held_ns += latest - operation.ready_ns
            else:
                crossing_count += 1
    return {"held_count": held_count, "held_ns": held_ns, "crossing_count": crossing_count}
