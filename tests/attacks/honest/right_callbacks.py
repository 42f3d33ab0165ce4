"""Right work in which the checks call back and forth."""

import shutil

EXERCISE = "energy_ex01"
EARNS = "all"
STUB = "modules/04-energy-profiling/ex01-power-measurement/power_measurement.py"


def plant(entry, course):
    (entry / STUB).parent.mkdir(parents=True)
    shutil.copy(course.root / "solutions" / STUB, entry / STUB)
