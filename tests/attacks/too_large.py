"""A stub of twenty megabytes."""

EXERCISE = "scaling_ex01"
SUBMITTED = "x = 1  # passed\n" * 1_300_000
