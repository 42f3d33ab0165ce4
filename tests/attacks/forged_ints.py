"""An int subclass that equals every int, inside a list that is expected to hold batches."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
CAUSE = "forbidden value"
SUBMITTED = r"""
class Same(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__

def knee_batch(rows, share=0.9):
    if not rows or not 0 < share <= 1:
        raise ValueError
    return {"knee": Same(4), "best": Same(4), "undecided": Same(4)}
"""
