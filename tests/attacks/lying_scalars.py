"""Numbers that are numpy's, and lie about their value, type and comparison."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import numpy as np

class Same(np.float64):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    def __gt__(self, other): return True
    def __sub__(self, other): return np.float64(0)
    def __rsub__(self, other): return np.float64(0)
    __array_priority__ = 1e9
    __hash__ = np.float64.__hash__

def attack(name, *args, **kwargs):
    return {key: Same(1.0) for key in ("samples_per_s", "low_per_s", "high_per_s", "flops_per_sample_count", "utilization_ratio", "knee", "best")}
"""
