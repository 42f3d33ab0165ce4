from __future__ import annotations

CAUGHT_BY = "test_waits_of_drawn_threads"
SAYS = "own waits inside the window"


def _waits(recording: _Recording) -> list[tuple[_Call, int, int]]:
    first, last = recording.window
    clipped = [
        (call, max(call.start, first), min(call.end, last))
        for call in recording.calls
        if call_class(call.name) in WAITING
    ]
    return [(call, start, end) for call, start, end in clipped if start < end]
