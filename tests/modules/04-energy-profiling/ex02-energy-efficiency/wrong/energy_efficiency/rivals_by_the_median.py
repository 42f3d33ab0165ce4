from __future__ import annotations

CAUGHT_BY = "test_cheapest_of_a_few"
SAYS = "whose range overlaps"


def cheapest_within(rows: Sequence[Mapping[str, Any]], longest_ns: float) -> dict[str, Any] | None:
    if longest_ns <= 0:
        raise ValueError(f"longest_ns is {longest_ns}: it must be above 0")
    allowed = [row for row in rows if row["call_ns"] <= longest_ns]
    if not allowed:
        return None
    best = min(allowed, key=lambda row: row["j_per_sample"])
    rivals = [
        (row["precision"], row["batch"])
        for row in allowed
        if row is not best and row["j_per_sample"] <= best["high_j"]
    ]
    return {"precision": best["precision"], "batch": best["batch"], "rivals": rivals}
