"""Counts from when the client got round to sending."""

from __future__ import annotations

CAUGHT_BY = "test_latency_of_simulated_requests"
SAYS = "kept its user waiting all the same"


def latency_from_intended(capture: str, run: str) -> dict[str, list[int]]:
    intended, sent, _, end = _moments(_run(capture, "requests.json", run))
    return {
        "latency_ns": (end - sent).tolist(),
        "measured_ns": (end - sent).tolist(),
        "late_ns": (sent - intended).tolist(),
    }
