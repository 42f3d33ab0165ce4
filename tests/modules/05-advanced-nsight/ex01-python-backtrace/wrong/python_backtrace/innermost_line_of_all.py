from __future__ import annotations

CAUGHT_BY = "test_waits_of_drawn_stacks"
SAYS = "of the lines"


def waiting_lines(capture: str, file: str) -> list[dict[str, int]]:
    with captures.open(capture) as recording:
        frames = (recording.kernels, recording.copies, recording.memsets)
    operations = [row for frame in frames for row in frame.select("start_ns", "end_ns").rows()]
    rows: dict[int, dict[str, int]] = {}
    for trace in backtraces(capture):
        if trace.name not in BLOCKING:
            continue
        line = trace.python[0].line if trace.python else 0
        row = rows.setdefault(line, {"line": line, "wait_count": 0, "blocked_ns": 0, "idle_ns": 0})
        row["wait_count"] += 1
        row["blocked_ns"] += trace.end_ns - trace.start_ns
        after = [start for start, end in operations if end > trace.end_ns]
        row["idle_ns"] += max(0, min(after, default=trace.end_ns) - trace.end_ns)
    return sorted(rows.values(), key=lambda row: (-row["idle_ns"], row["line"]))
