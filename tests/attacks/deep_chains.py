"""Chains without a bracket: unary operators, attributes, sums, comparisons, else-ifs, a thousand deep and more."""

EXERCISE = "scaling_ex01"
SUBMITTED = (
    "def f():\n    return " + "-" * 100_000 + "1\n"
    "g = lambda: " + "lambda: " * 10_000 + "1\n"
    "h = lambda x: x" + ".a" * 100_000 + "\n"
    "k = lambda: 1" + " + 1" * 50_000 + "\n"
    "def knee_batch(*args):\n    return {}\n"
)
