"""Reads what /proc says of every process: environment, memory, descriptors, command, working folder, root."""

EXERCISE = "scaling_ex01"
BITES = True
MUST_NOT_SAY = ("learned [",)
SUBMITTED = r"""
import os

own = os.getpid()
learned = []
for entry in os.listdir("/proc"):
    if not entry.isdigit() or int(entry) == own:
        continue
    for name in ("environ", "mem", "maps", "cmdline", "stat", "syscall", "stack"):
        try:
            with open(f"/proc/{entry}/{name}", "rb") as file:
                text = file.read(1 << 16)
                if b"pytest" in text or b"LAB_" in text or b"@MARK@" in text:
                    learned.append(f"{entry}/{name}")
        except (OSError, ValueError):
            pass
    for link in ("cwd", "root", "exe"):
        try:
            target = f"/proc/{entry}/{link}"
            if os.path.exists(f"{target}/solutions") or os.path.exists(f"{target}@COURSE@/solutions"):
                learned.append(target)
        except OSError:
            pass
    try:
        for fd in os.listdir(f"/proc/{entry}/fd"):
            target = os.readlink(f"/proc/{entry}/fd/{fd}")
            if "score" in target or "pytest" in target or "capture" in target:
                learned.append(target)
    except OSError:
        pass

def attack(name, *args, **kwargs):
    raise ValueError(f"learned {learned[:5]}" if learned else "nothing")
"""
