"""Kills, stops and terminates whatever it may: parent, group, everything, process one, the template."""

EXERCISE = "scaling_ex01"
DANGEROUS = True
SUBMITTED = r"""
import os, signal

def attack(name, *args, **kwargs):
    targets = [os.getppid(), 1, 0, -1, -os.getppid(), *range(2, 400)]
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
        for target in targets:
            if target == os.getpid() or (target in (0, -1) and number == signal.SIGSTOP):
                continue
            try:
                os.kill(target, number)
            except OSError:
                pass
    return {}
"""
