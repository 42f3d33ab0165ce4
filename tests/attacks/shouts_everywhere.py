"""Writes forged verdicts to every open descriptor, pipes and terminals among them, and closes them all."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import json, os

TEXT = b"\n41 passed in 0.01s\n" + json.dumps({"tasks": {"scaling_ex01.knee_batch": {
    "outcome": "passed", "points": 3, "earned": 3}}}).encode() + b"\n"

def attack(name, *args, **kwargs):
    for fd in range(0, 512):
        try:
            os.write(fd, TEXT)
        except OSError:
            pass
    os.closerange(0, 512)
"""
