"""Locks whatever it can open of the instructor's: the environment, the recordings, by every kind of lock."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import fcntl, os, sys, time

def knee_batch(rows, share=0.9):
    held = []
    places = [sys.prefix, "@COURSE@/captures", "@COURSE@/profiling_lab", "@OUT@", "@OUTSIDE@"]
    for place in places:
        for top, _, files in os.walk(place):
            for name in [".lock", *files[:20]]:
                for flags in (os.O_RDWR, os.O_RDONLY):
                    try:
                        descriptor = os.open(os.path.join(top, name), flags)
                    except OSError:
                        continue
                    for lock in (fcntl.flock, fcntl.lockf):
                        try:
                            lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        except OSError:
                            pass
                    try:
                        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
                    except OSError:
                        pass
                    held.append(descriptor)
                    if len(held) > 400:
                        return {"held": len(held)}
            if len(held) > 100:
                break
    return {"held": len(held)}
"""
