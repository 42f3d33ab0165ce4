"""Right keys, and numbers of a float subclass whose comparisons and arithmetic lie."""

EXERCISE = "scaling_ex01"
CAUSE = "forbidden value"
SUBMITTED = r"""
class Near(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    def __sub__(self, other): return 0.0
    __rsub__ = __abs__ = __sub__
    __hash__ = float.__hash__

def throughput(steps, batch, warmup):
    if len(steps[warmup:]) < 2 or batch < 1 or warmup < 0 or min(steps) <= 0 or max(steps) == 1000.0:
        raise ValueError
    return dict.fromkeys(("samples_per_s", "low_per_s", "high_per_s"), Near(1))
"""
WANTS = ("throughput",)
