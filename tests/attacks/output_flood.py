"""Prints without an end, through Python and past it."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
MOST_BYTES = 500_000
DANGEROUS = True
SUBMITTED = r"""
import os

def knee_batch(rows, share=0.9):
    block = b"passed " * 100_000
    for _ in range(200):
        try:
            os.write(1, block)
            os.write(2, block)
        except OSError:
            pass
    return {}
"""
