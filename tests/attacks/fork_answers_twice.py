"""Forks in a call: parent and child both come back, both answer, and the child stays."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import os, time

def attack(name, *args, **kwargs):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            return {"knee": 4, "best": 4, "undecided": []}
        return {"knee": 4, "best": 4, "undecided": []}
    return {}
"""
