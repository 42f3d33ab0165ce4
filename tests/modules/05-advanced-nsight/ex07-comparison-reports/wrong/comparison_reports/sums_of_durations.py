from __future__ import annotations

CAUGHT_BY = "test_pieces_of_recordings"
SAYS = "must not count twice"


def decompose(before: str, after: str, device: int = 0) -> list[dict[str, Any]]:
    rows = [
        {"piece": match["name"]}
        | {key: match[key] for key in ("before_ns", "after_ns", "change_ns")}
        for match in match_kernels(_pieces(before, device), _pieces(after, device))
    ]
    return [row for row in rows if row["before_ns"] or row["after_ns"]]


def _pieces(capture: str, device: int) -> dict[str, int]:
    with captures.open(capture) as recording:
        kernels = recording.kernels.with_columns(pl.col("demangled_name").alias("name"))
        frames = [
            ("", kernels),
            ("CUDA graphs", recording.graph_launches),
            ("copies", recording.copies),
            ("memsets", recording.memsets),
        ]
        operations = pl.concat(
            frame.select(
                "start_ns",
                "end_ns",
                "device",
                (pl.lit(piece) if piece else pl.col("name")).alias("name"),
            )
            for piece, frame in frames
        ).filter(pl.col("device") == device)
    if operations.is_empty():
        raise EmptyCapture(f"{capture}: device {device} did nothing")
    pieces = {"idle": 0}
    until = None
    for start, end, _, name in operations.sort("start_ns", "end_ns", "name").iter_rows():
        until = start if until is None else until
        pieces["idle"] += max(0, start - until)
        pieces[name] = pieces.get(name, 0) + end - start
        until = max(until, end)
    return pieces
