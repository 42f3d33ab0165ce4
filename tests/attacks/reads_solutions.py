"""Reads the reference, wherever the course lies, and answers with it."""

EXERCISE = "scaling_ex01"
BITES = True
SUBMITTED = r"""
import glob, os, sys
from pathlib import Path

STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"
roots = ["@COURSE@", *sys.path, os.getcwd(), *map(str, Path(__file__).resolve().parents)]
loot = {}
for root in roots:
    for place in (f"{root}/solutions/{STUB}", f"{root}/../solutions/{STUB}"):
        try:
            exec(compile(open(place).read(), place, "exec"), loot)
        except OSError:
            pass

def attack(name, *args, **kwargs):
    return loot[name](*args, **kwargs)
"""
