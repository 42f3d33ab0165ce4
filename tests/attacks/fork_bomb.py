"""Forks without an end."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import os, time

def knee_batch(rows, share=0.9):
    end = time.time() + 30
    while time.time() < end:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)
"""
SLOW = 1.0
