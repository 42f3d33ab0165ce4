"""Claims to define a million functions with long names, to drown the messages and the search for a near one."""

EXERCISE = "scaling_ex01"
MOST_BYTES = 500_000
SUBMITTED = r"""
from grading.runner import learner_side, wire
load = learner_side.LearnerSide.load

def forged(self):
    load(self)
    names = [f"knee_bach{i:060d}" for i in range(1_000_000)]
    return wire.pack(["loaded", names, names[:5], {}])
learner_side.LearnerSide.load = forged
"""
DANGEROUS = True
