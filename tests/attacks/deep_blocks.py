"""Blocks inside blocks, and an else-if chain of ten thousand links: what is compiled recursively is deep."""

EXERCISE = "scaling_ex01"
SUBMITTED = (
    "def knee_batch(*args):\n    if args == 0:\n        pass\n"
    + "    elif args == 1:\n        pass\n" * 10_000
    + "    return {}\n"
)
