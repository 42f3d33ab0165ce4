from __future__ import annotations

CAUGHT_BY = "test_parts_of_drawn_runs"
SAYS = "to the start of the last rank's"


def _parts(collective: dict) -> dict[int, tuple[int, int, int]]:
    last = min(collective["start_ns"].values())
    return {
        rank: (start, min(last, collective["end_ns"][rank]), collective["end_ns"][rank])
        for rank, start in collective["start_ns"].items()
    }
