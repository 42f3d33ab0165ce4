"""Stops its own process and is never heard of again."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
CAUSE = "time-out"
SLOW = 0.2
SUBMITTED = r"""
import os, signal

def knee_batch(rows, share=0.9):
    os.kill(os.getpid(), signal.SIGSTOP)
    return {}
"""
