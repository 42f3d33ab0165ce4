"""A dict whose keys all have the same hash: reading it takes quadratic time on the other side."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
PRIME = 2**61 - 1
count = 60_000
keys = {i * PRIME << 61 * (i % 2): 0 for i in range(2)}

def knee_batch(rows, share=0.9):
    from grading.runner import learner_side, wire
    numbers = [{6: (i * PRIME + (PRIME << 64)).to_bytes(24, "big", signed=True)} for i in range(count)]
    flat = [part for number in numbers for part in (number, 0)]
    frame = wire.pack(["return", {1: flat}])
    learner_side.LearnerSide.handle = lambda self, body: frame
    return None
"""
SLOW = 1.0
