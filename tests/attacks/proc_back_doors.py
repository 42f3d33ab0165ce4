"""Writes where the kernel listens: core patterns, sysrq, oom scores, sysctls, cgroups, its own maps."""

EXERCISE = "scaling_ex01"
DANGEROUS = True
MUST_NOT_SAY = ("wrote [",)
SUBMITTED = r"""
import glob, os
wrote = []
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/oom_score_adj",
             "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward", "/proc/1/uid_map",
             "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/uevent_helper", "/dev/kmsg", "/dev/mem"):
    try:
        with open(path, "r+b", buffering=0) as file:
            file.write(file.read(64) or b"0")
            wrote.append(path)
    except (OSError, ValueError):
        pass
for path in glob.glob("/dev/*"):
    if os.path.basename(path)[:2] in ("sd", "vd", "nv", "md", "dm") and os.access(path, os.R_OK):
        wrote.append(path)

def attack(name, *args, **kwargs):
    raise ValueError(f"wrote {wrote}" if wrote else "nothing")
"""
