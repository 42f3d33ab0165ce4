"""A folder that is nested deeper than a path may be long, with names as long as they may be."""

import os

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    here = entry
    here.mkdir()
    descriptor = os.open(here, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("x" * 200, dir_fd=descriptor)
        inner = os.open("x" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("single_gpu_baseline.py", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    file = entry / FOLDER / "single_gpu_baseline.py"
    file.parent.mkdir(parents=True)
    file.write_text("def knee_batch(*args):\n    return {}\n")
