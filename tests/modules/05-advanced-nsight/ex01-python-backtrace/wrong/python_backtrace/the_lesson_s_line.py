from __future__ import annotations

CAUGHT_BY = "test_verdict_on_drawn_stacks"
SAYS = "does not name the line with the most idle time"


def line_verdict(capture: str, file: str, floor_ratio: float = 0.01) -> Finding:
    rows = waiting_lines(capture, file)
    with captures.open(capture) as recording:
        frames = (recording.kernels, recording.copies, recording.memsets)
    operations = [row for frame in frames for row in frame.select("start_ns", "end_ns").rows()]
    window = max(end for _, end in operations) - min(start for start, _ in operations)
    evidence = {
        "recoverable_ns": sum(row["idle_ns"] for row in rows),
        "window_ns": window,
        "wait_count": sum(row["wait_count"] for row in rows),
        "blocked_ns": sum(row["blocked_ns"] for row in rows),
        "line_ns": rows[0]["idle_ns"] if rows else 0,
    }
    return Finding("sync_bound", "device:0", evidence, "backtrace_training.py:48 waits each step")
