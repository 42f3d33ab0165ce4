"""Takes for reserved memory what was reserved at the peak of the allocated."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_peak_of_a_history"
SAYS = "reserved_bytes"


def peak_memory(capture: str, device: int = 0) -> dict[str, Any]:
    history, _ = _history(capture, device)
    peak = max(history, key=lambda moment: moment["allocated_bytes"])
    return {
        "allocated_bytes": peak["allocated_bytes"],
        "reserved_bytes": peak["reserved_bytes"],
        "place": peak["place"],
        "time_us": peak["time_us"],
    }
