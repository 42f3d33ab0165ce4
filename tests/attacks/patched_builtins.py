"""Replaces the builtins that whoever reads its answer may use."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import builtins

builtins.isinstance = lambda value, kind: True
builtins.len = lambda value: 1
builtins.sum = lambda *values: 1
builtins.abs = builtins.round = lambda *values: 0
builtins.type = lambda value, *more: dict
builtins.repr = lambda value: "passed"
builtins.sorted = lambda values, **how: [4]

class Anything(dict):
    def __missing__(self, key):
        return self

def knee_batch(rows, share=0.9):
    return Anything(knee=4, best=4, undecided=[])
"""
