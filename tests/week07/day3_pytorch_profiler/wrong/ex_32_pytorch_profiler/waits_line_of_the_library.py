"""Names the innermost Python function, whosever it is."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_lines_of_waits"
SAYS = "a line of a library"


def _line_of(call: dict[str, Any], python: list[dict[str, Any]]) -> str | None:
    around = [
        event
        for event in python
        if event["start_ns"] <= call["start_ns"]
        and event["end_ns"] >= call["end_ns"]
        and event["thread"] == call["thread"]
    ]
    # Ordered by start, the longer first: from the outermost to the innermost.
    for place in range(len(around) - 1, -1, -1):
        own = _python_function(around[place]["name"])
        if own:
            file, line, function = own
            inner = around[place + 1] if place + 1 < len(around) else None
            if inner is not None and inner["called_from"]:
                return f"{inner['called_from']} {function}"
            return f"{file}:{line} {function}"
    return None
