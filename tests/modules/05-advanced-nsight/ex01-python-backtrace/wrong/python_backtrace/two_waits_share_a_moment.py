from __future__ import annotations

CAUGHT_BY = "test_waits_of_drawn_stacks"
SAYS = "so that no moment counts twice"


def waiting_lines(capture: str, file: str) -> list[dict[str, int]]:
    with captures.open(capture) as recording:
        frames = (recording.kernels, recording.copies, recording.memsets)
    operations = sorted(
        row for frame in frames for row in frame.select("start_ns", "end_ns").rows()
    )
    _launched(capture)
    rows: dict[int, dict[str, int]] = {}
    for trace in backtraces(capture):
        if trace.name not in BLOCKING:
            continue
        line = next((frame.line for frame in trace.python if frame.file == file), 0)
        row = rows.setdefault(line, {"line": line, "wait_count": 0, "blocked_ns": 0, "idle_ns": 0})
        row["wait_count"] += 1
        row["blocked_ns"] += trace.end_ns - trace.start_ns
        running = any(start <= trace.end_ns < end for start, end in operations)
        after = [start for start, _ in operations if start >= trace.end_ns]
        if after and not running:
            row["idle_ns"] += after[0] - trace.end_ns
    return sorted(rows.values(), key=lambda row: (-row["idle_ns"], row["line"]))
