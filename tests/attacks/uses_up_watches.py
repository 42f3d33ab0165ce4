"""Uses up what a user has a number of: inotify instances and watches, epolls, timers, descriptors."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import ctypes, os, select, signal

def knee_batch(rows, share=0.9):
    libc = ctypes.CDLL(None, use_errno=True)
    kept = []
    for make in (libc.inotify_init, lambda: os.dup(2), lambda: libc.timerfd_create(1, 0), lambda: libc.eventfd(0, 0)):
        for _ in range(3_000):
            try:
                descriptor = make()
            except OSError:
                break
            if descriptor < 0:
                break
            kept.append(descriptor)
        for descriptor in kept[2_000:]:
            os.close(descriptor)
        del kept[2_000:]
    for _ in range(3_000):
        timer = ctypes.c_void_p()
        if libc.timer_create(1, None, ctypes.byref(timer)) < 0:
            break
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    return {"knee": 4, "best": 4, "undecided": []}
"""
