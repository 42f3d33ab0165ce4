from __future__ import annotations

CAUGHT_BY = "test_energy_of_a_drawn_phase"
SAYS = "above_idle_j"


def phase_energy(capture: str, phase: str) -> dict[str, float]:
    recording = read_recording(capture)
    part = recording["phases"][find_phase(recording, phase)]
    times, counter = column(recording, "time_ns"), column(recording, "energy_mj")
    steps = [after - before for before, after in pairwise(counter)]
    ends = part["energy_start_mj"], part["energy_end_mj"]
    if None in ends or counter[0] == counter[-1]:
        raise CaptureError(f"{capture}: the energy counter was not read, or does not advance")
    instant = column(recording, "instant_mw")
    idle: list[int] = []
    for one in recording["phases"]:
        if one["name"] == "idle":
            idle += instant[_within(recording, one["start_ns"] + SETTLE_NS, one["end_ns"])]
    if not idle:
        raise CaptureError(f"{capture}: no idle phase is long enough to tell the idle power")
    idle_w = statistics.median(idle) / 1e3
    start, end = part["start_ns"], part["end_ns"]
    counter_j = (ends[1] - ends[0]) / 1e3

    def integral(name: str) -> float:
        return energy_between(times, column(recording, name), start, end, math.inf)

    return {
        "counter_j": counter_j,
        "error_j": max(steps) / 1e3,
        "instant_j": integral("instant_mw"),
        "average_j": integral("average_mw"),
        "idle_w": idle_w,
        "above_idle_j": max(0.0, counter_j - idle_w * (end - start) / NS_PER_S),
    }
