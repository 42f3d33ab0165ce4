from __future__ import annotations

CAUGHT_BY = "test_holder_of_drawn_threads"
SAYS = "holds nothing up"


def holder(capture: str) -> dict[str, Any]:
    recording = _read(capture)
    parts = [(a, b) for call, a, b in _waits(recording) if call_class(call.name) == "lock"]
    beside: Counter[tuple[int, str]] = Counter()
    for start, end, name, thread in recording.calls:
        if thread != recording.launching:
            beside[thread, name] += _overlap(start, end, parts)
    found: dict[str, Any] = {"thread": None, "name": None, "overlap_ns": 0}
    if beside and max(beside.values()) > 0:
        thread, name = min(beside, key=lambda key: (-beside[key], key))
        found = {"thread": thread, "name": name, "overlap_ns": beside[thread, name]}
    return {"lock_wait_ns": sum(end - start for start, end in parts)} | found
