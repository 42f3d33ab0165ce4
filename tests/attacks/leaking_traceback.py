"""Chains exceptions to get a traceback printed with the values of the frames above the call."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import sys, traceback

def attack(name, *args, **kwargs):
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append((frame.f_code.co_name, {k: repr(v) for k, v in frame.f_locals.items()}))
        frame = frame.f_back
    try:
        raise KeyError(found)
    except KeyError as error:
        text = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
        raise ValueError(text) from error
"""
MUST_NOT_SAY = ("sweep_of(", "enough", "LAB_SEED", "judge_")
