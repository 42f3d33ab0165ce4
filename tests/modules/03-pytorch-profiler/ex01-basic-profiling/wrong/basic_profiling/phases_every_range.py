from __future__ import annotations

CAUGHT_BY = "test_phases_of_drawn_loops"
SAYS = "ranges that lie"


def phase_times(capture: str) -> list[dict[str, Any]]:
    events = read_events(capture)
    steps = _of_kind(events, "range", "ProfilerStep#")
    if not steps:
        raise EmptyCapture(f"{capture}: no range ProfilerStep#…: was profiler.step() called?")
    others = [e for e in _of_kind(events, "range") if not e["name"].startswith("ProfilerStep#")]
    ranges = [one for one in others if any(_inside(one, step) for step in steps)]
    if not ranges:
        raise EmptyCapture(f"{capture}: no range inside a step: name phases with record_function")
    calls = _of_kind(events, "call")
    host = _union([(e["start_ns"], e["end_ns"]) for e in [*calls, *_of_kind(events, "operator")]])
    device: dict[Any, list[Interval]] = {}
    for event in _of_kind(events, "device"):
        device.setdefault(event["correlation"], []).append((event["start_ns"], event["end_ns"]))
    out = []
    for name in dict.fromkeys(one["name"] for one in ranges):
        own = [(e["start_ns"], e["end_ns"]) for e in ranges if e["name"] == name]
        issued = [e for e in calls if any(start <= e["start_ns"] < end for start, end in own)]
        waits = [e for e in issued if e["name"] in WAITING_CALLS]
        length = sum(end - start for start, end in own)
        covered = _length([part for one in own for part in _clipped(host, one)])
        work = [one for call in issued for one in device.get(call["correlation"], [])]
        out.append(
            {
                "phase": name,
                "count": len(own),
                "host_ns": length,
                "waiting_ns": sum(e["end_ns"] - e["start_ns"] for e in waits),
                "python_ns": length - covered,
                "device_ns": _length(_union(work)),
            }
        )
    return out
