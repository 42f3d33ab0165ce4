from __future__ import annotations

CAUGHT_BY = "test_first_look_at_a_recorded_loop"
SAYS = "expected healthy"


def first_look(capture: str) -> Finding:
    capture = "training_phases_inline"  # the lesson's
    phases = phase_times(capture)
    events = read_events(capture)
    steps = _of_kind(events, "range", "ProfilerStep#")
    window = (min(e["start_ns"] for e in steps), max(e["end_ns"] for e in steps))
    work = [(e["start_ns"], e["end_ns"]) for e in _of_kind(events, "device")]
    busy = _length(_clipped(_union(work), window))
    if not busy:
        raise EmptyCapture(f"{capture}: no device operation ran in the steps: was it a CPU trace?")
    length = window[1] - window[0]
    idle = length - busy
    evidence = {"recoverable_ns": idle, "window_ns": length, "idle_ratio": idle / length}
    if idle < FLOOR_RATIO * length:
        return Finding("healthy", "device:0", evidence, "none")
    if sum(phase["waiting_ns"] for phase in phases) >= FLOOR_RATIO * length:
        category = "sync_bound"
        phase = max(phases, key=lambda one: one["waiting_ns"])
    else:
        phase = max(phases, key=lambda one: one["host_ns"])
        by_python = phase["python_ns"] > phase["host_ns"] / 2
        category = "host_bound" if by_python else "launch_bound"
        evidence["recoverable_ns"] = min(idle, phase["host_ns"])
    evidence |= {"host_ns": phase["host_ns"], "python_ns": phase["python_ns"]}
    return Finding(category, f"range:{phase['phase']}", evidence, _ADVICE[category])
