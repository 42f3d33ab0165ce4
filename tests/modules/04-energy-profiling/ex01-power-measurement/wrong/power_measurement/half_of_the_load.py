from __future__ import annotations

CAUGHT_BY = "test_delay_of_a_made_up_sensor"
SAYS = "from the low level to the high one"


def sensor_delay(capture: str, name: str = "instant_mw", phase: str = "steady") -> dict[str, float]:
    recording = read_recording(capture)
    place = find_phase(recording, phase)
    if place == 0:
        raise CaptureError(f"{capture}: nothing precedes {phase}")
    high = statistics.median(_second_half(recording, place, name))
    start, end = (recording["phases"][place][key] for key in ("start_ns", "end_ns"))
    inside = _within(recording, start, end)
    times, values = column(recording, "time_ns")[inside], column(recording, name)[inside]
    answer = list(zip(times, values, strict=True))

    def reached(share: float) -> int:
        return next(time for time, value in answer if value >= share * high)

    return {"half_ns": float(reached(0.5) - start), "rise_ns": float(reached(0.9) - reached(0.1))}
