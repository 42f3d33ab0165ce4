"""Draws the line through the smallest and the largest copy."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_model"
SAYS = "Every copy is a point"


def transfer_model(capture: str, path: str) -> dict[str, float]:
    found = sorted(
        (copy["bytes"], copy["duration_ns"]) for copy in _copies(capture) if _path(copy) == path
    )
    if not found:
        raise EmptyCapture(f"{capture}: holds no copy {path}")
    (small, short), (large, long) = found[0], found[-1]
    if small == large:
        raise ValueError("all copies are of one size")
    per_byte = (long - short) / (large - small)
    latency = short - small * per_byte
    return {
        "latency_ns": latency,
        "bytes_per_ns": 1 / per_byte,
        "half_rate_bytes": latency / per_byte,
    }
