"""Recurses in C until the stack is gone, with every limit of Python's taken away."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SLOW = 1.0
SUBMITTED = r"""
import functools, sys, threading

def knee_batch(rows, share=0.9):
    sys.setrecursionlimit(1 << 30)
    value = []
    for _ in range(2_000_000):
        value = [value]
    return {"knee": repr(value), "best": value == value, "undecided": []}
"""
