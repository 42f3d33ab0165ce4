"""Takes the memory of the source for both directions: every D2H copy is one of "device"."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_rates"
SAYS = "returned the paths"


def copy_rates(capture: str) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    for copy in _copies(capture):
        entry = out.setdefault(
            f"{copy['kind']} {copy['source']}",
            {"copies_count": 0, "copied_bytes": 0, "copy_ns": 0, "bytes_per_ns": 0.0},
        )
        entry["copies_count"] += 1
        entry["copied_bytes"] += copy["bytes"]
        entry["copy_ns"] += copy["duration_ns"]
        entry["bytes_per_ns"] = entry["copied_bytes"] / entry["copy_ns"]
    return out
