"""Never finishes being imported."""

EXERCISE = "scaling_ex01"
CAUSE = ("bad import", "time-out")
SUBMITTED = r"""
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""
SLOW = 0.2
