"""A small frame that becomes sixty times as large when it is read: millions of empty lists."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
from grading.runner import learner_side
handle = learner_side.LearnerSide.handle

def forged(self, body):
    count = self.limit_bytes // 8
    return b"\x92\xa6return\xdd" + count.to_bytes(4, "big") + b"\x90" * count

def knee_batch(rows, share=0.9):
    learner_side.LearnerSide.handle = forged
    return None
"""
DANGEROUS = True
SLOW = 1.0
