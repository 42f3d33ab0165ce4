"""Puts all of the difference down to the caches."""

from __future__ import annotations

CAUGHT_BY = "test_gap_of_recorded_durations"
SAYS = "The same cycles at the application's clock"


def duration_gap(
    profiled: dict[str, Any], warm: dict[str, Any], application_ns: float, application_hz: float
) -> dict[str, float | None]:
    for name, value in (("application_ns", application_ns), ("application_hz", application_hz)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be above 0, got {value}")
    metrics = profiled["metrics"]
    duration = metrics.get("gpu__time_duration.sum")
    hz = metrics.get("gpc__cycles_elapsed.avg.per_second")
    cycles = metrics.get("gpc__cycles_elapsed.max")
    warm_cycles = warm["metrics"].get("gpc__cycles_elapsed.max")
    clock = cache = rest = None
    if duration is not None and hz is not None:
        clock = 0.0
    if cycles is not None and warm_cycles is not None:
        cache = (cycles - warm_cycles) / application_hz * 1e9
    if clock is not None and cache is not None:
        rest = duration - application_ns - clock - cache
    return {
        "profiled_ns": duration,
        "ratio": _quotient(duration, application_ns),
        "clock_ns": clock,
        "cache_ns": cache,
        "rest_ns": rest,
    }
