"""Calls the check's own functions with absurd arguments, from many threads, and without an end."""

EXERCISE = "energy_ex01"
WANTS = ("sample_power",)
SUBMITTED = r"""
import signal, threading
from grading.runner import hang_guard, learner_side

def sample_power(read_mw, clock_ns, sleep_ns, duration_ns, interval_ns):
    def storm():
        while True:
            for value in (10**2000, -10**2000, float("nan"), [[]] * 1000, "x" * 10_000, read_mw, None):
                for function in (sleep_ns, clock_ns, read_mw):
                    try:
                        function(value)
                    except BaseException:
                        pass
    for _ in range(4):
        threading.Thread(target=storm, daemon=True).start()
    storm()
"""
SLOW = 1.0
