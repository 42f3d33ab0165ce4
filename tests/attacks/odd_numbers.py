"""Numbers of types that compare as they like: Decimal, Fraction, complex, enumerations, booleans."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
CAUSE = "forbidden value"
SUBMITTED = r"""
import decimal, enum, fractions

class Batch(enum.IntEnum):
    FOUR = 4

class Near(fractions.Fraction):
    def __eq__(self, other): return True
    __hash__ = fractions.Fraction.__hash__

def knee_batch(rows, share=0.9):
    return {"knee": Batch.FOUR, "best": Near(4), "undecided": [decimal.Decimal(4), 4 + 0j, True]}
"""
