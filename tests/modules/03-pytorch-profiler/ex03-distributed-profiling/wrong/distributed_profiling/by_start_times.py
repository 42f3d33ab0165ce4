from __future__ import annotations

CAUGHT_BY = "test_waiting_of_drawn_traces"
SAYS = "clocks differ from rank to rank"


def split_by_duration(capture: str) -> dict[int, dict[str, int]]:
    ranks = read_ranks(capture)
    matched = _matched(capture, ranks)
    return {
        rank: {
            "wait_ns": sum(collective[rank][1] - collective[rank][0] for collective in matched),
            "transfer_ns": sum(collective[rank][2] - collective[rank][1] for collective in matched),
        }
        for rank in ranks
    }


def _matched(
    capture: str, ranks: dict[int, list[dict[str, Any]]]
) -> list[dict[int, tuple[int, int, int]]]:
    own = {rank: _spans(operations, "communication") for rank, operations in ranks.items()}
    counts = {rank: len(spans) for rank, spans in own.items()}
    if not any(counts.values()):
        raise EmptyCapture(f"{capture}: no communication kernel in these traces")
    if len(set(counts.values())) > 1:
        raise CaptureError(
            f"{capture}: communication kernels a rank {counts}: not the same steps, or a rank died"
        )
    out = []
    for together in zip(*own.values(), strict=True):
        last = max(start for start, _ in together)
        out.append(
            {
                rank: (start, min(max(last, start), end), end)
                for rank, (start, end) in zip(own, together, strict=True)
            }
        )
    return out
