"""Rewrites the worker's own classes so that each answer is the message that a passed check might be."""

EXERCISE = "scaling_ex01"
CAUSE = "protocol"
SUBMITTED = r"""
from grading.runner import learner_side, wire

def handle(self, body):
    return wire.pack(["passed"])
learner_side.LearnerSide.handle = handle

def attack(name, *args, **kwargs):
    return None
"""
