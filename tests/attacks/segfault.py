"""Crashes the interpreter."""

EXERCISE = "scaling_ex01"
CAUSE = "crash"
SUBMITTED = r"""
import ctypes

def attack(name, *args, **kwargs):
    ctypes.string_at(8)
"""
