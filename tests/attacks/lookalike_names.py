"""Defines the tasks' names in letters that only look alike, and others that Python folds together."""

EXERCISE = "scaling_ex01"
SUBMITTED = (
    "def knee_b\u0430tch(rows, share=0.9):\n    return {}\n\n"
    "def \uff4bnee_batch(rows, share=0.9):\n    raise NotImplementedError\n\n"
    "def \U0001d495hroughput(*args):\n    return {}\n"
)
