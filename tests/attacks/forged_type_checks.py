"""Replaces builtins on its side, so that the writer of values takes everything for plain."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import builtins
from grading.runner import wire

class Liar:
    def __eq__(self, other): return True

real = builtins.type
def forged(*args):
    return real(1.0) if len(args) == 1 and real(args[0]) is Liar else real(*args)

wire.type = forged  # a module's globals come before builtins
wire.ForbiddenValue = AssertionError

def attack(name, *args, **kwargs):
    return {"knee": Liar(), "best": Liar(), "undecided": Liar()}
"""
