from __future__ import annotations

CAUGHT_BY = "test_matches_where_ranks_were_not_recorded_from_the_same_one_on"
SAYS = "no kernel of rank 1 ran during rank 0's first"


def match_collectives(capture: str) -> list[dict]:
    own = _collectives(capture)
    counts = {rank: len(rows) for rank, rows in own.items()}
    if not any(counts.values()):
        raise EmptyCapture(f"{capture}: no collective inside the ranks' ranges")
    if len(set(counts.values())) > 1:
        raise CaptureError(f"{capture}: collectives a rank {counts}: a rank died")
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
