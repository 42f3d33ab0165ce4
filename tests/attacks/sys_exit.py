"""Raises SystemExit with success."""

EXERCISE = "scaling_ex01"
CAUSE = "exit"
SUBMITTED = r"""
import sys

def attack(name, *args, **kwargs):
    sys.exit(0)
"""
