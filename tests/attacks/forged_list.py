"""A list subclass that equals every list and has every length."""

EXERCISE = "scaling_ex01"
WANTS = ("batch_sweep",)
CAUSE = "forbidden value"
SUBMITTED = r"""
class Rows(list):
    def __eq__(self, other): return True
    def __iter__(self): return iter(())
    def __len__(self): return 0
    def __getitem__(self, key): return self

def batch_sweep(capture, warmup):
    if not 0 <= warmup < 10:
        raise ValueError
    return Rows()
"""
