"""Hands in modules named like the library's, the grader's and Python's own, beside the stub."""

EXERCISE = "scaling_ex01"
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/"
EVIL = 'open("@CANARY@", "a").write(__name__)\nraise SystemExit(0)\n'
FILES = {
    f"{place}{name}": EVIL
    for place in ("", FOLDER)
    for name in (
        "json.py",
        "math.py",
        "statistics.py",
        "numpy.py",
        "msgspec.py",
        "profiling_lab/__init__.py",
        "grading/__init__.py",
        "grading/runner/learner_side.py",
        "pathlib.py",
        "typing.py",
    )
}
SUBMITTED = r"""
import json, math, statistics, numpy
from profiling_lab import captures

def attack(name, *args, **kwargs):
    return {}
"""
