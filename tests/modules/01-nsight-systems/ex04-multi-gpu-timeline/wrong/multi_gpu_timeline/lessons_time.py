from __future__ import annotations

CAUGHT_BY = "test_time_of_a_recording"
SAYS = "each moment counts once"


def device_time(capture: str) -> dict[int, dict[str, int]]:
    capture = "ddp_timeline_straggler"  # whatever is asked, the lesson's
    ranks = find_ranks(capture)
    matched = match_collectives(capture)
    with captures.open(capture) as recording:
        work = recording.device_operations.filter(~pl.col("name").str.starts_with("nccl"))
    start_ns = min(rank["start_ns"] for rank in ranks.values())
    end_ns = max(rank["end_ns"] for rank in ranks.values())
    out = {}
    for rank, place in ranks.items():
        own = work.filter(pl.col("process") == place["process"])
        spans = [("work", *span) for span in own.select("start_ns", "end_ns").iter_rows()]
        for collective in matched:
            start, arrived, end = _parts(collective)[rank]
            spans += [("wait", start, arrived), ("transfer", arrived, end)]
        out[rank] = _shares(spans, start_ns, end_ns)
    return out
