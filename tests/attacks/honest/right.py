"""The reference's own work: full marks, whatever was graded before it."""

import shutil

EXERCISE = "scaling_ex01"
EARNS = "all"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    (entry / STUB).parent.mkdir(parents=True)
    shutil.copy(course.root / "solutions" / STUB, entry / STUB)
