from __future__ import annotations

CAUGHT_BY = "test_waits_of_drawn_threads"
SAYS = "own waits inside the window"


def costly_waits(capture: str) -> list[dict[str, Any]]:
    recording = _read(capture)
    first, last = recording.window
    rows: dict[str, dict[str, Any]] = {}
    for call in recording.calls:
        start, end = max(call.start, first), min(call.end, last)
        if call_class(call.name) not in WAITING or start >= end:
            continue
        row = rows.setdefault(
            call.name,
            {"name": call.name, "class": call_class(call.name)}
            | {"count": 0, "blocked_ns": 0, "idle_ns": 0},
        )
        row["count"] += 1
        row["blocked_ns"] += end - start
        row["idle_ns"] += end - start - _overlap(start, end, recording.busy)
    return sorted(rows.values(), key=lambda row: (-row["idle_ns"], row["name"]))
