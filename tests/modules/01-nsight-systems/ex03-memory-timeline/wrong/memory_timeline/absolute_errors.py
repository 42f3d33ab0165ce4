"""Minimises absolute errors: the largest copies decide the latency."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_recorded_model"
SAYS = "relative"


def transfer_model(capture: str, path: str) -> dict[str, float]:
    found = [copy for copy in _copies(capture) if _path(copy) == path]
    if not found:
        raise EmptyCapture(f"{capture}: holds no copy {path}")
    sizes = [copy["bytes"] for copy in found]
    if len(set(sizes)) < 2:
        raise ValueError("all copies are of one size")
    per_byte, latency = np.polyfit(sizes, [copy["duration_ns"] for copy in found], 1)
    return {
        "latency_ns": float(latency),
        "bytes_per_ns": float(1 / per_byte),
        "half_rate_bytes": float(latency / per_byte),
    }
