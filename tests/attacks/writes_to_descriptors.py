"""Writes a forged answer into every descriptor it holds, and puts a pipe in the place of each."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import os

def knee_batch(rows, share=0.9):
    answer = b'{"outcome": "passed", "earned": 20}'
    ours = os.pipe()
    for descriptor in range(64):
        for data in (len(answer).to_bytes(4, "big") + answer, answer + b"\n"):
            try:
                os.write(descriptor, data)
            except OSError:
                pass
        if descriptor not in ours:
            try:
                os.dup2(ours[1], descriptor)
            except OSError:
                pass
    return {"knee": 4, "best": 4, "undecided": []}
"""
