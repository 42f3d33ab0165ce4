from __future__ import annotations

CAUGHT_BY = "test_period_of_a_made_up_sensor"
SAYS = "differ from the one before"


def update_period(capture: str, name: str = "instant_mw") -> dict[str, float]:
    recording = read_recording(capture)
    values, times = column(recording, name), column(recording, "time_ns")
    stale = sum(one == other for one, other in pairwise(values))
    polled = float(statistics.median(b - a for a, b in pairwise(times)))
    return {"polled_ns": polled, "period_ns": polled, "stale_pct": 100 * stale / (len(times) - 1)}
