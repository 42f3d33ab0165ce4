from __future__ import annotations

CAUGHT_BY = "test_requests_of_a_made_up_run"
SAYS = "held is what no free_completed"


def requests_by_line(capture: str) -> list[dict[str, Any]]:
    rows: dict[str | None, dict[str, Any]] = {}
    for tensor in _tensors(read_snapshot(capture)):
        row = rows.setdefault(
            tensor["where"],
            {"where": tensor["where"], "asked_bytes": 0, "asked_count": 0}
            | {"held_bytes": 0, "held_count": 0},
        )
        row["asked_bytes"] += tensor["bytes"]
        row["asked_count"] += 1
        row["held_bytes"] += tensor["bytes"]
        row["held_count"] += 1
    return sorted(
        rows.values(), key=lambda r: (-r["asked_bytes"], r["where"] is None, r["where"] or "")
    )
