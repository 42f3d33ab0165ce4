"""Fills the kernel's key rings, whose quota is a user's, and looks for what another job left there."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
MUST_NOT_SAY = ("learned [",)
DANGEROUS = True
SUBMITTED = r"""
import ctypes

libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])

def knee_batch(rows, share=0.9):
    for ring in (-3, -4, -5):
        found = call(250, 10, ring, b"user", b"@MARK@", 0)
        if found >= 0:
            raise ValueError("learned [a key]")
        for number in range(400):
            if call(248, b"user", b"@MARK@" if number == 0 else b"k%d" % number, b"x" * 100, 100, ring) < 0:
                break
    return {}
"""
