"""Replaces its own process by another program that says that all is well."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import os, sys

def knee_batch(rows, share=0.9):
    os.execv(sys.executable, [sys.executable, "-c", "print('1 passed'); raise SystemExit(0)"])
"""
