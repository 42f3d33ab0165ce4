"""Comes back at once, and never finishes taking its objects apart."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
class Sticky:
    def __del__(self):
        while True:
            pass

def knee_batch(rows, share=0.9):
    Sticky()
    return {"knee": 4, "best": 4, "undecided": []}
"""
SLOW = 1.0
