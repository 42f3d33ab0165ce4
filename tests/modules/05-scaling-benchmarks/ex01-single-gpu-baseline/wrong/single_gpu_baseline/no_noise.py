from __future__ import annotations

CAUGHT_BY = "test_knee_of_drawn_rows"
SAYS = "within their own noise"


def knee_batch(rows: Sequence[Mapping[str, float]], share: float = 0.9) -> dict[str, Any]:
    if not rows or not 0 < share <= 1:
        raise ValueError("rows and share")
    ordered = sorted(rows, key=lambda row: row["batch"])
    best = max(ordered, key=lambda row: row["samples_per_s"])
    enough = share * best["samples_per_s"]
    knee = next(row["batch"] for row in ordered if row["samples_per_s"] >= enough)
    return {"knee": knee, "best": best["batch"], "undecided": []}
