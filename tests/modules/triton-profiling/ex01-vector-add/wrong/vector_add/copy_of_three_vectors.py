from __future__ import annotations

CAUGHT_BY = "test_the_share_of_a_generated_sweep"
SAYS = "a copy touches two vectors, not three"


def share_of_copy(capture: str | Path) -> list[dict[str, Any]]:
    out = []
    for row in _sweep(capture)["sizes"]:
        if row.get("copy"):
            add = row["bytes"] / statistics.median(row["cold"])
            copy = row["bytes"] / statistics.median(row["copy"])
            out.append(
                {"n": row["n"], "add_gb_s": add, "copy_gb_s": copy, "share_ratio": add / copy}
            )
    if not out:
        raise CaptureError("no row has samples of a copy")
    return out
