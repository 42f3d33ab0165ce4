"""Runs a program that no file system holds, from a memfd, under another name."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import os

def knee_batch(rows, share=0.9):
    descriptor = os.memfd_create("pytest", 0)
    with open("/bin/true", "rb") as program:
        os.write(descriptor, program.read())
    os.execve(descriptor, ["pytest", "--junitxml=@OUT@/results.xml"], {"LAB_SCORE": "20"})
"""
