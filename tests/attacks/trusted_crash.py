"""Ends itself by the signals that the grader takes for its own doing, so that it would be judged anew."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import os, signal
numbers = [signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU, signal.SIGSYS, signal.SIGPIPE]

def attack(name, *args, **kwargs):
    os.kill(os.getpid(), numbers[len(name) % 5])
"""
