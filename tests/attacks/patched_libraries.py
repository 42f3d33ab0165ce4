"""Patches clocks, random numbers, numpy, polars and the library for whoever runs after it."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import math, random, time
import numpy as np
from profiling_lab import captures, devices, findings
for clock in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns"):
    setattr(time, clock, lambda: 0)
random.Random.uniform = lambda self, a, b: 1.0
random.Random.randrange = lambda self, *args: 1
random.random = lambda: 0.0
np.median = np.ptp = np.allclose = lambda *args, **kwargs: 1.0
math.isclose = lambda *args, **kwargs: True
captures.text = lambda *args: "{}"
devices.get = lambda name: None
findings.problems = lambda finding: []

def attack(name, *args, **kwargs):
    return dict.fromkeys(("samples_per_s", "low_per_s", "high_per_s", "knee", "best", "undecided"), 1.0)
"""
