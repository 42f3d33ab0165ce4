"""Names the innermost line, whosever it is."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_lines_of_holders"
SAYS = "a line of a library"


def _allocating_line(frames: list[dict[str, Any]]) -> str | None:
    for frame in frames:
        if frame["filename"].endswith(".py"):
            return f"{frame['filename']}:{frame['line']} {frame['name']}"
    return None
