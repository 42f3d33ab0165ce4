from __future__ import annotations

CAUGHT_BY = "test_energy_of_a_made_up_phase"
SAYS = "half a second or more after their start"


def phase_energy(capture: str, phase: str) -> dict[str, float]:
    recording = read_recording(capture)
    part = recording["phases"][find_phase(recording, phase)]
    times, counter = column(recording, "time_ns"), column(recording, "energy_mj")
    start, end = part["start_ns"], part["end_ns"]
    instant = column(recording, "instant_mw")
    idle: list[int] = []
    for one in recording["phases"]:
        if one["name"] == "idle":
            # the device does nothing, from the first moment on
            idle += instant[_within(recording, one["start_ns"], one["end_ns"])]
    idle_w = statistics.median(idle) / 1e3
    counter_j = (part["energy_end_mj"] - part["energy_start_mj"]) / 1e3
    average = column(recording, "average_mw")
    return {
        "counter_j": counter_j,
        "error_j": max(b - a for a, b in pairwise(counter)) / 1e3,
        "instant_j": energy_between(times, instant, start, end, times[-1]),
        "average_j": energy_between(times, average, start, end, times[-1]),
        "idle_w": idle_w,
        "above_idle_j": counter_j - idle_w * (end - start) / 1e9,
    }
