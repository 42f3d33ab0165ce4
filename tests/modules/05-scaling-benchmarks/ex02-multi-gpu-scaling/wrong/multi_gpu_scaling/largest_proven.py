from __future__ import annotations

CAUGHT_BY = "test_where_a_bound_holds"
SAYS = "proven is"


def efficient_up_to(rows: Sequence[Mapping[str, float]], bound: float) -> dict[str, Any]:
    ordered = sorted(rows, key=lambda row: row["world_size"])
    sizes = [row["world_size"] for row in ordered]
    if not sizes or len(set(sizes)) < len(sizes) or not bound > 0:
        raise ValueError("rows and bound")
    proven = [row["world_size"] for row in ordered if row["low_ratio"] >= bound]
    refuted = [row["world_size"] for row in ordered if row["high_ratio"] < bound]
    return {
        "proven": max(proven, default=None),
        "refuted": min(refuted, default=None),
        "undecided": [size for size in sizes if size not in (*proven, *refuted)],
    }
