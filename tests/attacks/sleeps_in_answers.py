"""Answers byte by byte, always in time for the next one: a call that lasts for ever and never hangs."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import time
from grading.runner import learner_side

def knee_batch(rows, share=0.9):
    def send(self, body):
        data = len(body).to_bytes(4, "big") + body
        for place in range(len(data)):
            self.stream.sendall(data[place:place + 1])
            time.sleep(0.5)
    learner_side.Connection.send = send
    return {"knee": 4, "best": 4, "undecided": []}
"""
SLOW = 0.2
