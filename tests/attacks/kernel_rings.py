"""Asks io_uring to read and write files, behind whatever watches system calls."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import ctypes

libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])

def knee_batch(rows, share=0.9):
    parameters = ctypes.create_string_buffer(256)
    rings = [call(425, 64, parameters) for _ in range(4)]
    for ring in rings:
        if ring >= 0:
            call(427, ring, 1, parameters, 1)
            call(426, ring, 1, 0, 0, None, 0)
    return {}
"""
