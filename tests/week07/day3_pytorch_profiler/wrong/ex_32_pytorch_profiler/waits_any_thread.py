"""Takes functions of other threads."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_lines_of_waits"
SAYS = "of another thread"


def _line_of(call: dict[str, Any], python: list[dict[str, Any]]) -> str | None:
    around = [
        event
        for event in python
        if event["start_ns"] <= call["start_ns"] and event["end_ns"] >= call["end_ns"]
    ]
    # Ordered by start, the longer first: from the outermost to the innermost.
    for place in range(len(around) - 1, -1, -1):
        own = _python_function(around[place]["name"])
        if own and not _of_a_library(own[0]):
            file, line, function = own
            inner = around[place + 1] if place + 1 < len(around) else None
            if inner is not None and inner["called_from"]:
                return f"{inner['called_from']} {function}"
            return f"{file}:{line} {function}"
    return None
