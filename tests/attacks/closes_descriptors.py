"""Closes every descriptor, the one that its answers go through among them."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import os

def knee_batch(rows, share=0.9):
    os.closerange(0, 65_536)
    return {"knee": 4, "best": 4, "undecided": []}
"""
