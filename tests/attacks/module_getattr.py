"""Defines no function: a module's __getattr__ makes one for every name, also for the machinery's."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import sys, types

class Every(types.ModuleType):
    def __getattribute__(self, name):
        return lambda *args, **kwargs: {}
    def __dir__(self):
        return ["throughput"]

def __getattr__(name):
    return lambda *args, **kwargs: {}

sys.modules[__name__].__class__ = Every
"""
