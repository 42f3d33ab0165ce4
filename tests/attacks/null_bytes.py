"""Source with null bytes, which a reader may cut short and Python may not."""

EXERCISE = "scaling_ex01"
SUBMITTED = b"def knee_batch(*args):\n    return {}\n\0\nraise SystemExit(0)\n"
