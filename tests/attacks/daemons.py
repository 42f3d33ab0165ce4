"""Leaves processes that have left their group and session, ignore signals and start others."""

EXERCISE = "scaling_ex01"
DANGEROUS = True
SUBMITTED = r"""
import os, signal, time

def attack(name, *args, **kwargs):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        for fd in range(64):
            try:
                os.close(fd)
            except OSError:
                pass
        end = time.time() + 60
        while time.time() < end:
            time.sleep(0.05)
            try:
                with open("@CANARY@", "a") as file:
                    file.write("still here\n")
            except OSError:
                pass
        os._exit(0)
"""
