"""Ends the process with success in the middle of a call."""

EXERCISE = "scaling_ex01"
CAUSE = "exit"
SUBMITTED = r"""
import os

def attack(name, *args, **kwargs):
    os._exit(0)
"""
