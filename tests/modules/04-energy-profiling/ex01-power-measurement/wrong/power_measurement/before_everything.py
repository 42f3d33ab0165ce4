from __future__ import annotations

CAUGHT_BY = "test_delay_from_the_phase_right_before"
SAYS = "half_ns"


def sensor_delay(capture: str, name: str = "instant_mw", phase: str = "steady") -> dict[str, float]:
    recording = read_recording(capture)
    place = find_phase(recording, phase)
    if place == 0:
        raise CaptureError(f"{capture}: nothing precedes {phase}, so there is no step")
    before, during = (_second_half(recording, one, name) for one in (0, place))
    if not before or not during or statistics.median(during) <= statistics.median(before):
        raise CaptureError(f"{capture}: {name} does not rise to {phase}")
    low, high = statistics.median(before), statistics.median(during)
    start, end = (recording["phases"][place][key] for key in ("start_ns", "end_ns"))
    inside = _within(recording, start, end)
    times, values = column(recording, "time_ns")[inside], column(recording, name)[inside]
    answer = list(zip(times, values, strict=True))

    def reached(share: float) -> int:
        return next(time for time, value in answer if value >= low + share * (high - low))

    return {"half_ns": float(reached(0.5) - start), "rise_ns": float(reached(0.9) - reached(0.1))}
