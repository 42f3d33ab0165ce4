"""Source nested so deeply that reading it ends a careless reader's process."""

EXERCISE = "scaling_ex01"
SUBMITTED = "x = " + "(" * 100_000 + ")" * 100_000 + "\ndef knee_batch(*args):\n    return {}\n"
