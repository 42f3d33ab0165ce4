from __future__ import annotations

CAUGHT_BY = "test_parts_of_drawn_runs"
SAYS = "to the start of the last rank's"


def split_collectives(capture: str) -> dict[int, dict[str, int]]:
    matched = match_collectives(capture)
    out = {rank: {"wait_ns": 0, "transfer_ns": 0} for rank in find_ranks(capture)}
    for collective in matched:
        lengths = {rank: collective["end_ns"][rank] - collective["start_ns"][rank] for rank in out}
        for rank, length in lengths.items():
            out[rank]["wait_ns"] += length - min(lengths.values())
            out[rank]["transfer_ns"] += min(lengths.values())
    return out
