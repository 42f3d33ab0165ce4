"""Leaves its answer for later jobs: shared memory, message queues, semaphores, /dev/shm, the temporary folder."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
MUST_NOT_SAY = ("learned [",)
SUBMITTED = r"""
import ctypes, os

left = []

def knee_batch(rows, share=0.9):
    if left:
        raise ValueError("nothing of another job's")
    left.append(True)
    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    for place in ("/dev/shm/left", "/tmp/left", "/var/tmp/left", "/dev/mqueue/left", "@OUTSIDE@/left"):
        if os.path.exists(place):
            found.append(place)
        try:
            open(place, "w").write("knee 4")
        except OSError:
            pass
    for get in (lambda flag: libc.msgget(4711, flag), lambda flag: libc.shmget(4711, 4096, flag), lambda flag: libc.semget(4711, 1, flag)):
        if get(0) >= 0:
            found.append("a System V object")
        get(0o1666)
    if found:
        raise ValueError(f"learned [{found}")
    raise ValueError("nothing")
"""
