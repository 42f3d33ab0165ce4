"""Takes the processors: real time, the best priority, memory that stays, everybody else on one core."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import ctypes, os

def knee_batch(rows, share=0.9):
    for pid in (0, 1, os.getppid()):
        for change in (
            lambda: os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(99)),
            lambda: os.setpriority(os.PRIO_PROCESS, pid, -20),
            lambda: os.setpriority(os.PRIO_USER, 0, 19),
            lambda: pid and os.sched_setaffinity(pid, {0}),
        ):
            try:
                change()
            except OSError:
                pass
    ctypes.CDLL(None).mlockall(3)
    return {}
"""
