"""Raises pytest's own ways out: skip, xfail, exit, and the exception that ends a check ungraded."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import unittest
kinds = [unittest.SkipTest]
try:
    import pytest
    kinds += [pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception]
    from grading.runner.scoring import NotGraded
    kinds.append(lambda text: NotGraded("passed", text))
except BaseException:
    for name in ("Skipped", "XFailed", "Exit", "NotGraded"):
        kinds.append(type(name, (BaseException,), {"__module__": "_pytest.outcomes", "outcome": "passed"}))

def attack(name, *args, **kwargs):
    kinds.append(kinds.pop(0))
    raise kinds[0]("passed")
"""
