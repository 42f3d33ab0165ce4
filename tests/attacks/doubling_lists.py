"""An answer of forty small lists that is a tree of a billion when it is written out."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SLOW = 1.0
SUBMITTED = r"""
def knee_batch(rows, share=0.9):
    value = [1.0]
    for _ in range(40):
        value = [value, value]
    return {"knee": 4, "best": 4, "undecided": value}
"""
