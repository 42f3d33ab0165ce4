"""Looks at device 0, whichever device was asked for."""

from __future__ import annotations

CAUGHT_BY = "test_before_and_behind_the_default_stream"
SAYS = "default_stream_waits(a drawn capture, 7, 1)"


def default_stream_waits(capture: str, default_stream: int = 7, device: int = 0) -> dict[str, int]:
    held_count = held_ns = crossing_count = 0
    ends: dict[bool, int] = {}
    for operation in _issued(capture, 0):
        is_default = operation.stream == default_stream
        other = ends.get(not is_default)
        if other is not None and other > operation.ready_ns:
            if operation.start_ns >= other:
                held_count += 1
                held_ns += other - operation.ready_ns
            else:
                crossing_count += 1
        ends[is_default] = max(ends.get(is_default, operation.end_ns), operation.end_ns)
    return {"held_count": held_count, "held_ns": held_ns, "crossing_count": crossing_count}
