from __future__ import annotations

CAUGHT_BY = "test_a_clock_moves_between_two_looks"
SAYS = "the first is due at once"


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
    for due in range(0, duration_ns, interval_ns):
        left = due - (clock_ns() - start)
        if left < 0:
            continue
        if left > 0:
            sleep_ns(left)
        time = clock_ns() - start
        try:
            out["power_mw"].append(read_mw())
        except RuntimeError as failure:
            out["error"] = str(failure)
            break
        out["time_ns"].append(time)
    return out
