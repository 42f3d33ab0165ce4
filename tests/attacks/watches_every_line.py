"""Watches every line, call and collection of the worker, to answer from the frames that it sees."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
MUST_NOT_SAY = ("learned [",)
SUBMITTED = r"""
import gc, sys, threading

seen = {}

def watch(frame, event, argument):
    for name, value in list(frame.f_locals.items()):
        if "expected" in name or "reference" in name or "oracle" in name:
            seen[name] = repr(value)[:200]
    return watch

sys.settrace(watch)
sys.setprofile(watch)
threading.settrace(watch)
gc.callbacks.append(lambda phase, details: seen.update(details))

def knee_batch(rows, share=0.9):
    hidden = [name for name in seen if "expected" in name or "oracle" in name]
    if hidden:
        raise ValueError(f"learned [{hidden}")
    return {}
"""
