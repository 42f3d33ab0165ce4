"""Counts waits outside the steps."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_lines_of_waits"
SAYS = "outside the steps"


def synchronizing_calls(capture: str) -> list[dict[str, Any]]:
    events = _trace(capture)["events"]
    steps = _steps(events, capture)
    python = [event for event in events if event["kind"] == "python"]
    pageable = {e["correlation"] for e in events if e["kind"] == "copy" and "Pageable" in e["name"]}
    found: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for call in events:
        if call["kind"] != "call":
            continue
        if call["name"] not in SYNCHRONIZING_CALLS and call["correlation"] not in pageable:
            continue
        where = _line_of(call, python)
        found[call["name"], where].append(call["end_ns"] - call["start_ns"])
    rows = [
        {"call": call, "where": where, "count": len(times), "blocked_ns": sum(times)}
        for (call, where), times in found.items()
    ]
    return sorted(
        rows, key=lambda r: (-r["blocked_ns"], r["call"], r["where"] is None, r["where"] or "")
    )
