"""Ends the process with success while it is imported."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import os
os._exit(0)
"""
