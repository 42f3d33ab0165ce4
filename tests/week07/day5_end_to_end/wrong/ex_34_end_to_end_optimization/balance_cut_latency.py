"""Cuts the latency of a request off at the window's end."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_balance_by_hand"
SAYS = "the second alone, for 40 ns"


def littles_law(
    capture: str, run: str, window: tuple[int, int] | None = None
) -> dict[str, float | None]:
    _, sent, _, end = _moments(_run(capture, "requests.json", run))
    first, last = window if window is not None else (int(sent.min()), int(end.max()))
    if last <= first:
        raise ValueError(f"the window from {first} ns to {last} ns has no length")
    inside = (np.clip(end, first, last) - np.clip(sent, first, last)).sum()
    in_system = float(inside) / (last - first)
    arrived = (first <= sent) & (sent < last)
    rate_per_ns = int(arrived.sum()) / (last - first)
    latency_ns = float((np.minimum(end, last) - sent)[arrived].mean()) if arrived.any() else None
    mismatch = None
    if latency_ns is not None and in_system > 0:
        mismatch = (in_system - rate_per_ns * latency_ns) / in_system
    return {
        "in_system_count": in_system,
        "rate_per_s": rate_per_ns * 1e9,
        "latency_ns": latency_ns,
        "mismatch_ratio": mismatch,
    }
