"""Uses the check's own callbacks to learn and to bend what the check will compare: clock, sleeps, errors."""

EXERCISE = "energy_ex01"
WANTS = ("sample_power",)
SUBMITTED = r"""
def sample_power(read_mw, clock_ns, sleep_ns, duration_ns, interval_ns):
    if duration_ns <= 0 or interval_ns <= 0:
        raise ValueError
    times, power, error = [], [], ""
    sleep_ns(-clock_ns())
    try:
        while len(times) < 5:
            times.append(clock_ns())
            power.append(read_mw())
    except RuntimeError as caught:
        error = str(caught)
    setattr(read_mw, "__name__", "passed") if hasattr(read_mw, "__name__") else None
    return {"time_ns": times, "power_mw": power, "error": error}
"""
