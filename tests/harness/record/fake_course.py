"""A course with profilers that are scripts."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from profiling_lab.record import cli

FAKE_NSYS = """\
#!{python}
import os, pathlib, shutil, subprocess, sys
log = pathlib.Path({log!r})
with log.open("a") as out:
    out.write(" ".join(sys.argv[1:]) + "\\n")
verb = sys.argv[1]
if verb == "--version":
    print("NVIDIA Nsight Systems version 2025.3.1.0-fake")
elif "--help" in sys.argv or "--help-reports" in sys.argv:
    print("usage: nsys", verb, "[<options>]")
elif verb == "profile":
    assert set(os.environ) <= {{"PATH", "HOME", "LANG", "LC_CTYPE", "MARK"}}, dict(os.environ)
    command = [word for word in sys.argv[2:] if not word.startswith("--")]
    done = subprocess.run(command)
    pathlib.Path("timeline.nsys-rep").write_bytes(b"report of " + bytes(20))
    sys.exit(done.returncode)
elif verb == "export":
    shutil.copy({template!r}, "timeline.sqlite")
elif verb == "stats":
    reports = next(word for word in sys.argv if word.startswith("--report=")).split("=")[1]
    for name in reports.split(","):
        if name != "cuda_gpu_mem_time_sum":
            pathlib.Path(f"stats_{{name}}.csv").write_text("Time (%),Name\\n100.0,infer\\n")
        else:
            print("stats.sqlite: [cuda_gpu_mem_time_sum.py] (SKIPPED) no data")
"""

PROGRAM = """\
import sys
print('RESULT {"steps": 3, "checksum": 42}')
"""


class Course:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.captures = root / "captures"
        self.log = root / "nsys.log"
        self.nsys = root / "bin" / "nsys"
        self.template = root / "template.sqlite"
        self.program = self.captures / "programs" / "loop.py"

    def calls(self, verb: str) -> int:
        text = self.log.read_text() if self.log.exists() else ""
        return sum(line.startswith(verb + " ") for line in text.splitlines())

    def record(self, *arguments: str) -> int:
        return cli.main(
            ["--captures", str(self.captures), "--nsys", str(self.nsys), "--no-isolation"]
            + list(arguments)
        )

    def left_over(self) -> list[str]:
        return [path.name for path in self.captures.iterdir() if path.name.startswith(".")]


FAKE_NCU = """\
#!{python}
import os, pathlib, subprocess, sys
log = pathlib.Path({log!r})
words = sys.argv[1:]
with log.open("a") as out:
    out.write(" ".join(words) + "\\n")
if "--version" in words:
    print("NVIDIA (R) Nsight Compute Command Line Profiler")
    print("Version 2025.3.1.0 (build 1) (public-release)")
elif words[0] in ("--help", "--list-sets", "--list-sections"):
    print("usage: ncu [options] [program] [program-arguments]")
elif "--import" in words:
    print("==PROF== a line of the tool")
    if words[words.index("--page") + 1] == "source":
        print('"Kernel Name","copy"')
        print('"#","Source","# Samples"')
        print('"0","LDG.E R1, [R2]","7"')
    else:
        print('"ID","Kernel Name","gpu__time_duration.sum"')
        print('"","","us"')
        print('"0","copy","61.5"')
else:
    assert set(os.environ) <= {{"PATH", "HOME", "LANG", "LC_CTYPE", "MARK"}}, dict(os.environ)
    if not {counters!r}:
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
        sys.exit(1)
    print('==PROF== Profiling "copy" - 0: 0%....50%....100% - 38 passes')
    command = words[words.index("python3"):] if "python3" in words else words[-3:]
    done = subprocess.run(command)
    pathlib.Path("kernels.ncu-rep").write_bytes(b"NVR" + {report!r})
    sys.exit(done.returncode)
"""

MEASURED = """\
import sys
print('RESULT {"profiled": %s}' % str("--once" in sys.argv).lower())
"""

WRITES = """\
import gzip, json, os, pickle, sys, threading
here = os.getcwd()
trace = {
    "traceName": here + "/trace.json",
    "frames": [threading.__file__, "/opt/venv/lib/python3.12/site-packages/torch/x.py(3): f"],
    "id": "2b9af2b1-8ae8-52b7-8622-dcbdb674c70f",
    "text": "x" * 100_000,
}
with gzip.open("trace.json.gz", "wt") as out:
    json.dump(trace, out)
with open("memory.pickle", "wb") as out:
    pickle.dump({"frames": [{"filename": here + "/loop.py", "line": 3}], "pool": (0, 1)}, out)
print('RESULT {"steps": 3}')
"""


def fake_ncu(course: Course, counters: bool = True, report: bytes = b" copy ") -> None:
    ncu = course.nsys.with_name("ncu")
    text = FAKE_NCU.format(
        python=sys.executable, log=str(course.log), counters=counters, report=report
    )
    ncu.write_text(text)
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)


def record_kinds(course: Course, *arguments: str) -> int:
    return course.record("--ncu", str(course.nsys.with_name("ncu")), *arguments)
