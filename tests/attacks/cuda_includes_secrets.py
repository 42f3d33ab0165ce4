"""Includes files of the machine, so that the compiler's errors quote them."""

EXERCISE = "nsys_ex01"
STUB = "modules/01-nsight-systems/ex01-timeline-basics/improved.cu"
WANTS = ("improved",)
MUST_NOT_SAY = ("PLANTED-SECRET", "root:", "/bin/sh")
SUBMITTED = r"""
#include "@SECRET@"
#include "/etc/shadow"
#include "/etc/passwd"
#include "/proc/self/environ"
#include "/proc/1/environ"
"""
