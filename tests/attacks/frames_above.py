"""Looks for the expected value in the frames above the call and in every object that gc knows."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import gc, sys

def attack(name, *args, **kwargs):
    frame = sys._getframe()
    while frame is not None:
        for place in (frame.f_locals, frame.f_globals):
            for key in ("want", "expected", "oracle", "answer", "right"):
                if key in place:
                    return place[key]
        frame = frame.f_back
    for thing in gc.get_objects():
        if type(thing) is dict and set(thing) >= {"knee", "best"} | {"samples_per_s"}:
            return thing
    raise ValueError("nothing found")
"""
