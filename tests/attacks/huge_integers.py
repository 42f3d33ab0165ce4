"""Integers of a million digits, where printing one costs minutes."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
def knee_batch(rows, share=0.9):
    return {"knee": 1 << 3_000_000, "best": -(1 << 3_000_000), "undecided": [1 << 64, -1 << 65]}
"""
