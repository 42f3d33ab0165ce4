"""A loop in Python that swallows every interruption."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
CAUSE = "time-out"
SUBMITTED = r"""
def knee_batch(rows, share=0.9):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""
SLOW = 0.2
