"""Sends reports of exceptions with tokens, kinds, types and frames that nothing ever raised."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
from grading.runner import learner_side, wire
count = 0

def handle(self, body):
    global count
    count += 1
    report = {
        "kind": ("exception", "forbidden", "too_large", "hang", "syntax")[count % 5],
        "type": "ValueError\x1b[2J", "names": ["builtins.ValueError", "profiling_lab.errors.CaptureError",
        "profiling_lab.errors.EmptyCapture", "_pytest.outcomes.Skipped"], "message": "weather load copy" * 9,
        "frames": [["@COURSE@/tests/x.py", count, "f", "passed"]] * 9, "innermost": [True, "knee_batch"],
        "token": count - 3, "file": "/etc/passwd", "line": -count, "code": "",
    }
    return wire.pack(["raised", report])
learner_side.LearnerSide.handle = handle

def attack(name, *args, **kwargs):
    return None
"""
