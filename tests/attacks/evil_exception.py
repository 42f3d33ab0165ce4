"""An exception whose text, class, bases and attributes are code: it runs where it is reported."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import os

class Meta(type):
    def mro(cls): return [cls, ValueError, Exception, BaseException, object]
    @property
    def __name__(cls): os._exit(0)
    def __instancecheck__(cls, other): return True

class Evil(ValueError, metaclass=Meta):
    def __str__(self):
        while True:
            pass
    __repr__ = __str__
    def __getattribute__(self, name):
        if name in ("__class__", "__traceback__", "_grading_token"):
            return 0
        raise KeyboardInterrupt
    def __del__(self):
        raise SystemExit(0)

def attack(name, *args, **kwargs):
    raise Evil(*args)
"""
SLOW = 0.2
