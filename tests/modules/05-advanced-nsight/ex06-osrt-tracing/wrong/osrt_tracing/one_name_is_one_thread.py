from __future__ import annotations

CAUGHT_BY = "test_holder_of_drawn_threads"
SAYS = "two threads in calls of one name are two"


def holder(capture: str) -> dict[str, Any]:
    recording = _read(capture)
    parts = [(a, b) for call, a, b in _waits(recording) if call_class(call.name) == "lock"]
    beside: Counter[str] = Counter()
    threads: dict[str, int] = {}
    for start, end, name, thread in recording.calls:
        if thread != recording.launching and call_class(name) not in ("lock", "poll"):
            beside[name] += _overlap(start, end, parts)
            threads.setdefault(name, thread)
    found: dict[str, Any] = {"thread": None, "name": None, "overlap_ns": 0}
    if beside and max(beside.values()) > 0:
        name = min(beside, key=lambda key: (-beside[key], key))
        found = {"thread": threads[name], "name": name, "overlap_ns": beside[name]}
    return {"lock_wait_ns": sum(end - start for start, end in parts)} | found
