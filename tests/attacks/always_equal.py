"""Returns an object that is equal to everything and smaller, larger and near at once."""

EXERCISE = "scaling_ex01"
CAUSE = "forbidden value"
SUBMITTED = r"""
class Anything:
    def __eq__(self, other): return True
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    __hash__ = lambda self: 0
    def __getattr__(self, name): return self
    def __getitem__(self, key): return self
    def __call__(self, *args, **kwargs): return self
    def __iter__(self): return iter(())
    def __len__(self): return 1
    def __float__(self): return 1.0
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __abs__ = __sub__
    @property
    def __class__(self): return dict

def attack(name, *args, **kwargs):
    return Anything()
"""
