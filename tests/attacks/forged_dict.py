"""A dict subclass that has every key, and an ordinary one whose items are made when they are read."""

EXERCISE = "scaling_ex01"
CAUSE = "forbidden value"
SUBMITTED = r"""
class Has(dict):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __contains__(self, key): return True
    def __missing__(self, key): return self
    def keys(self): return self

def attack(name, *args, **kwargs):
    return Has() if name != "batch_sweep" else [Has()]
"""
