"""A hard link to the reference: the same file, so that a change of one would change the other."""

import os
import shutil

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"
# A hard link cannot be told from a copy, and a copy of the reference is what likeness is for.
COPIES_REFERENCE = True


def plant(entry, course):
    (entry / FOLDER).mkdir(parents=True)
    original = course.root / "solutions" / FOLDER / "single_gpu_baseline.py"
    try:
        os.link(original, entry / FOLDER / "single_gpu_baseline.py")
    except OSError:  # on another file system
        shutil.copy(original, entry / FOLDER / "single_gpu_baseline.py")
