"""A loop in C with every signal blocked, which nothing inside the process can interrupt."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
CAUSE = "time-out"
SUBMITTED = r"""
import signal

def knee_batch(rows, share=0.9):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    return sum(range(10**15))
"""
SLOW = 0.2
