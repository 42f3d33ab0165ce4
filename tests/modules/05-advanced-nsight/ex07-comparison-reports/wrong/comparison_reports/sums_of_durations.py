from __future__ import annotations

CAUGHT_BY = "test_pieces_of_recordings"
SAYS = "must not count twice"


def decompose(before: str, after: str, device: int = 0) -> list[dict[str, Any]]:
    old, old_rest = _pieces(before, device)
    new, new_rest = _pieces(after, device)
    rows = [
        {
            "piece": match["name"],
            **{key: match[key] for key in ("before_ns", "after_ns", "change_ns")},
        }
        for match in match_kernels(old, new)
    ]
    for piece in {**old_rest, **new_rest}:
        before_ns, after_ns = old_rest.get(piece, 0), new_rest.get(piece, 0)
        rows.append(
            {
                "piece": piece,
                "before_ns": before_ns,
                "after_ns": after_ns,
                "change_ns": after_ns - before_ns,
            }
        )
    rows = [row for row in rows if row["before_ns"] or row["after_ns"]]
    return sorted(rows, key=lambda row: (-abs(row["change_ns"]), row["piece"]))


def _pieces(capture: str, device: int) -> tuple[dict[str, int], dict[str, int]]:
    with captures.open(capture) as recording:
        frames = [
            recording.kernels.select(
                "start_ns", "end_ns", "device", pl.col("demangled_name").alias("name"), kind=True
            ),
            *(
                frame.select(
                    "start_ns", "end_ns", "device", pl.lit(piece).alias("name"), kind=False
                )
                for piece, frame in (
                    ("CUDA graphs", recording.graph_launches),
                    ("copies", recording.copies),
                    ("memsets", recording.memsets),
                )
            ),
        ]
    operations = pl.concat(frames).filter(pl.col("device") == device)
    if operations.is_empty():
        raise EmptyCapture(f"{capture}: device {device} did nothing")
    kernels: dict[str, int] = {}
    rest = {"idle": 0}
    until = None
    for start, end, _, name, is_kernel in operations.sort("start_ns", "end_ns", "name").iter_rows():
        until = start if until is None else until
        rest["idle"] += max(0, start - until)
        pieces = kernels if is_kernel else rest
        pieces[name] = pieces.get(name, 0) + end - start
        until = max(until, end)
    return kernels, rest
