from __future__ import annotations

CAUGHT_BY = "test_readings_come_at_regular_times"
SAYS = "after each one drifts"


def sample_power(
    read_mw: Callable[[], int],
    clock_ns: Callable[[], int],
    sleep_ns: Callable[[int], object],
    duration_ns: int,
    interval_ns: int,
) -> dict[str, Any]:
    if min(duration_ns, interval_ns) <= 0:
        raise ValueError("duration and interval must be above 0")
    out: dict[str, Any] = {"time_ns": [], "power_mw": [], "error": ""}
    start = clock_ns()
    while clock_ns() - start < duration_ns:
        time = clock_ns() - start
        try:
            out["power_mw"].append(read_mw())
        except RuntimeError as failure:
            out["error"] = str(failure)
            break
        out["time_ns"].append(time)
        sleep_ns(interval_ns)
    return out
