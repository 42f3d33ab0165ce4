"""Answers that are made while they are read, without an end."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
CAUSE = "forbidden value"
SUBMITTED = r"""
import itertools

class Rows(list):
    def __iter__(self): return itertools.cycle([4])
    def __len__(self): return 1

def knee_batch(rows, share=0.9):
    return {"knee": itertools.count(), "best": map(int, iter(int, 1)), "undecided": Rows([4])}
"""
