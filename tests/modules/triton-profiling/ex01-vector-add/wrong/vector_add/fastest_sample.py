from __future__ import annotations

CAUGHT_BY = "test_the_floor_of_a_recording"
SAYS = "fastest single sample"


def launch_floor_ns(capture: str | Path, way: str) -> float:
    table = _sweep(capture)
    _medians(capture, table, way)
    return min(min(row[way]) for row in table["sizes"])
