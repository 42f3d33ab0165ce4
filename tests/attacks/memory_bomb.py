"""Takes memory until there is none."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
CAUSE = ("memory", "crash", "time-out")
DANGEROUS = True
SUBMITTED = r"""
def knee_batch(rows, share=0.9):
    kept = []
    while True:
        try:
            kept.append(b"x" * (64 << 20))
        except MemoryError:
            pass
"""
SLOW = 1.0
