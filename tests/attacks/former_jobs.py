"""Searches its own memory, /dev, /tmp and shared memory for what jobs before it left behind."""

EXERCISE = "scaling_ex01"
MUST_NOT_SAY = ("remains [",)
SUBMITTED = r"""
import glob, os, re
# Written in two halves, so that the search does not find itself.
mark = b"SECRET-OF-THE-" + b"JOB-BEFORE-@MARK@"[0:] if False else b"".join([b"SECRET-OF-", b"THE-JOB-BEFORE"])
found = []
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps:
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if "rw" not in line.split()[1] or last - first > 1 << 28 or "[v" in line:
            continue
        try:
            memory.seek(first)
            text = memory.read(last - first)
        except (OSError, ValueError):
            continue
        if text.count(mark + b"-CALLED"):
            found.append(line.split()[0])
for path in glob.glob("/tmp/**", recursive=True) + glob.glob("/dev/shm/**", recursive=True):
    if "left-by-a-job" in path:
        found.append(path)
        continue

def attack(name, *args, **kwargs):
    for place in ("/tmp", "/dev/shm", "/var/tmp", "."):
        try:
            open(f"{place}/left-by-a-job", "w").write("x")
        except OSError:
            pass
    raise ValueError(f"remains {found}" if found else "nothing")
"""
