"""An ndarray subclass that overrides every ufunc, and an array of objects with __eq__ of their own."""

EXERCISE = "scaling_ex01"
CAUSE = "forbidden value"
SUBMITTED = r"""
import numpy as np

class Yes:
    def __eq__(self, other): return True

class Lying(np.ndarray):
    def __array_ufunc__(self, *args, **kwargs): return True
    def __array_function__(self, *args, **kwargs): return True
    def __eq__(self, other): return True

def attack(name, *args, **kwargs):
    if name == "batch_sweep":
        return np.array([Yes()], dtype=object)
    return np.zeros(3).view(Lying)
"""
