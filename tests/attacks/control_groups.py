"""Writes to control groups, to the kernel's settings and to the out-of-memory killer's wishes."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import glob

def knee_batch(rows, share=0.9):
    places = [*glob.glob("/sys/fs/cgroup/**/cgroup.kill", recursive=True)[:20], *glob.glob("/sys/fs/cgroup/**/memory.max", recursive=True)[:20]]
    places += ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/oom_score_adj", "/proc/1/oom_score_adj", "/proc/sys/vm/drop_caches"]
    for place in places:
        for text in ("1", "-1000", "1000"):
            try:
                with open(place, "w") as file:
                    file.write(text)
            except OSError:
                pass
    return {}
"""
