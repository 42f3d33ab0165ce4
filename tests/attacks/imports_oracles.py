"""Imports the grader's own oracles and generators beside itself, and asks them."""

EXERCISE = "scaling_ex01"
BITES = True
SUBMITTED = r"""
import importlib, sys
sys.path[:0] = ["@COURSE@"]
found = []
for name in ("grading.checks.oracles", "grading.checks.generate", "grading.checks.fixtures",
             "grading.runner.plugin", "grading.grader.judge", "grading.grader.intake.submissions", "solutions", "tests.week07.day5_end_to_end.probes"):
    try:
        module = importlib.import_module(name)
        if getattr(module, "__file__", None):
            found.append(name)
    except BaseException:
        pass
if found:
    try:
        open("@CANARY@", "a").write(" ".join(found))
    except OSError:
        pass

def attack(name, *args, **kwargs):
    raise ValueError(f"could import {found}" if found else "nothing")
"""
MUST_NOT_SAY = ("could import [",)
