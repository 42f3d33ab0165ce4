"""What the client measured leaves the server's queue out."""

from __future__ import annotations

CAUGHT_BY = "test_latency_of_recorded_requests"
SAYS = "before that it waited in the queue"


def latency_from_intended(capture: str, run: str) -> dict[str, list[int]]:
    intended, sent, start, end = _moments(_run(capture, "requests.json", run))
    return {
        "latency_ns": (end - intended).tolist(),
        "measured_ns": (end - start).tolist(),
        "late_ns": (sent - intended).tolist(),
    }
