"""Forks twice: the grandchild answers after its parents have ended well."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import os, time

def knee_batch(rows, share=0.9):
    if os.fork():
        os._exit(0)
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.2)
    return {"knee": 4, "best": 4, "undecided": []}
"""
