"""Makes its output file a thousand gigabytes long without writing anything, then shorter than it was."""

EXERCISE = "scaling_ex01"
DANGEROUS = True
SUBMITTED = r"""
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sizes = [1 << 40, 0, 20 << 30, 5]

def attack(name, *args, **kwargs):
    print("some words")
    sizes.append(sizes.pop(0))
    for fd in (1, 2):
        try:
            os.ftruncate(fd, sizes[0])
        except OSError:
            pass
    return {}
"""
