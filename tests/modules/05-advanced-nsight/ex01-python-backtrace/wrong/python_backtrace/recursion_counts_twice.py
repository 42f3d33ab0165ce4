from __future__ import annotations

CAUGHT_BY = "test_lines_of_drawn_stacks"
SAYS = "each kernel once"


def time_by_line(capture: str, file: str) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for length, trace in _launched(capture):
        lines = [frame.line for frame in trace.python if frame.file == file] if trace else []
        for place, line in enumerate(lines):
            row = found.setdefault(line, {"self_ns": 0, "inclusive_ns": 0, "kernel_count": 0})
            row["self_ns"] += length * (place == 0)
            row["inclusive_ns"] += length
            row["kernel_count"] += 1
    return found
