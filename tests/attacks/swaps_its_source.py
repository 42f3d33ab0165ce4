"""Replaces its own file, its code objects and its docstring once it has been looked at."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import pathlib, sys

try:
    pathlib.Path(__file__).write_text("raise NotImplementedError")
    pathlib.Path(__file__).chmod(0)
except OSError:
    pass

def knee_batch(rows, share=0.9):
    knee_batch.__code__ = (lambda rows, share=0.9: {"knee": 4, "best": 4, "undecided": []}).__code__
    sys.modules.pop(__name__, None)
    raise NotImplementedError
"""
