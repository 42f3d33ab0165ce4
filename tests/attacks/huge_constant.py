"""A few characters that take for ever, or all memory, when they are compiled or folded."""

EXERCISE = "scaling_ex01"
SUBMITTED = (
    "x = ((((9**9)**9)**9)**9)**9\ny = 'x' * 4000 * 4000\n"
    "z = " + "9" * 4000 + "\nw = (1,) * 10**3 * 10**3\n"
    "def knee_batch(*args):\n    return {}\n"
)
