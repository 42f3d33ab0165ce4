"""One line of nearly a megabyte."""

EXERCISE = "scaling_ex01"
SUBMITTED = "x = '" + "passed " * 140_000 + "'\n"
