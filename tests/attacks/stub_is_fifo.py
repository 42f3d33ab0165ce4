"""A FIFO where the stub should be: who opens it waits for ever."""

import os

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline"


def plant(entry, course):
    (entry / FOLDER).mkdir(parents=True)
    os.mkfifo(entry / FOLDER / "single_gpu_baseline.py")
