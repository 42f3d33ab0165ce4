"""Takes the mean of the rates: small copies count as much as large ones."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_rates"
SAYS = "over all durations"


def copy_rates(capture: str) -> dict[str, dict[str, float]]:
    rates: dict[str, list[float]] = {}
    out: dict[str, dict[str, float]] = {}
    for copy in _copies(capture):
        entry = out.setdefault(_path(copy), {"copies_count": 0, "copied_bytes": 0, "copy_ns": 0})
        entry["copies_count"] += 1
        entry["copied_bytes"] += copy["bytes"]
        entry["copy_ns"] += copy["duration_ns"]
        rates.setdefault(_path(copy), []).append(copy["bytes"] / copy["duration_ns"])
    for path, found in rates.items():
        out[path]["bytes_per_ns"] = sum(found) / len(found)
    return out
