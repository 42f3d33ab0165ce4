"""Raises one exception that is every builtin exception and every error of the library at once."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import builtins
from profiling_lab import errors
from grading.runner import learner_side

class Evil(ValueError):
    def __str__(self): return " ".join(["weather load copy"] * 100)

EVERY = [f"{m}.{n}" for m, home in (("builtins", builtins), ("profiling_lab.errors", errors))
         for n, k in vars(home).items() if isinstance(k, type) and issubclass(k, BaseException)]
report = learner_side.LearnerSide._report

def forged(self, error):
    return report(self, error) | {"names": [n for n in EVERY if "NotImpl" not in n]}
learner_side.LearnerSide._report = forged

def attack(name, *args, **kwargs):
    raise Evil
"""
