from __future__ import annotations

CAUGHT_BY = "test_classes_of_drawn_threads"
SAYS = "counts once, with it"


def time_by_class(capture: str) -> dict[int, dict[str, int]]:
    with captures.open(capture) as recording:
        frame = recording.os_calls
    found: dict[int, dict[str, int]] = {}
    for length, name, thread in frame.select("duration_ns", "name", "thread").iter_rows():
        if length and name != "[Unknown]":
            classes = found.setdefault(thread, {})
            classes[call_class(name)] = classes.get(call_class(name), 0) + length
    if not found:
        raise EmptyCapture(f"{capture}: no calls of the OS (--trace=osrt)")
    return found
