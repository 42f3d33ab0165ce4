"""Looks written, and answers as if it were todo or blocked, in the hope that these are not counted."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
def helper():
    raise NotImplementedError

def attack(name, *args, **kwargs):
    if name == "throughput":
        raise NotImplementedError
    return helper()
"""
