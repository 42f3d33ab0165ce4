from __future__ import annotations

CAUGHT_BY = "test_waits_of_drawn_stacks"
SAYS = "Idle begins when the wait is over"


def waiting_lines(capture: str, file: str) -> list[dict[str, int]]:
    rows: dict[int, dict[str, int]] = {}
    for trace in backtraces(capture):
        if trace.name in BLOCKING:
            line = next((frame.line for frame in trace.python if frame.file == file), 0)
            row = rows.setdefault(
                line, {"line": line, "wait_count": 0, "blocked_ns": 0, "idle_ns": 0}
            )
            row["wait_count"] += 1
            row["blocked_ns"] += trace.end_ns - trace.start_ns
            row["idle_ns"] += trace.end_ns - trace.start_ns
    return sorted(rows.values(), key=lambda row: (-row["idle_ns"], row["line"]))
