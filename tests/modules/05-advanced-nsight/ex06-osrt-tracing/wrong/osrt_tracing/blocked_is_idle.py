from __future__ import annotations

CAUGHT_BY = "test_waits_of_drawn_threads"
SAYS = "nothing runs on the device"


def costly_waits(capture: str) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for call, start, end in _waits(_read(capture)):
        row = rows.setdefault(
            call.name,
            {"name": call.name, "class": call_class(call.name)}
            | {"count": 0, "blocked_ns": 0, "idle_ns": 0},
        )
        row["count"] += 1
        row["blocked_ns"] += end - start
        row["idle_ns"] += end - start
    return sorted(rows.values(), key=lambda row: (-row["idle_ns"], row["name"]))
