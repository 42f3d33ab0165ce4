"""Fills every place that can be written to, with one large file and with a million small ones."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import os

def knee_batch(rows, share=0.9):
    total, block = 0, b"x" * (1 << 20)
    for folder in (".", "/tmp", "/var/tmp", "/dev/shm", "/run", os.path.expanduser("~"), "@COURSE@", "@OUT@"):
        try:
            with open(os.path.join(folder, "filler"), "wb", buffering=0) as file:
                for _ in range(4096):
                    total += file.write(block)
        except OSError:
            pass
        try:
            for number in range(20_000):
                open(os.path.join(folder, f"small{number}"), "w").close()
        except OSError:
            pass
    return {"bytes": total}
"""
SLOW = 1.0
