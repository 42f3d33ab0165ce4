from __future__ import annotations

CAUGHT_BY = "test_lines_of_drawn_stacks"
SAYS = "innermost frame in the file"


def time_by_line(capture: str, file: str) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for length, trace in _launched(capture):
        frames = trace.python if trace else ()
        for line in {frame.line for frame in frames if frame.file == file}:
            row = found.setdefault(line, {"self_ns": 0, "inclusive_ns": 0, "kernel_count": 0})
            row["self_ns"] += length * (frames[0].file == file and frames[0].line == line)
            row["inclusive_ns"] += length
            row["kernel_count"] += 1
    return found
