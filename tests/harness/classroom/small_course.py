"""A small course, and what is run in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from profiling_lab.cli import lab

STUB = "week07/day1/mini.py"
OTHER = "week07/day2/more.py"
CUDA = "week07/day1/cuda/mini.cu"
DUE = "2026-12-04T23:59+01:00"

MANIFEST = """
[course]
title = "A small course"

[[exercises]]
id = "mini"
title = "How long?"
stub = "week07/day1/mini.py"
minutes = 5
difficulty = 1
skills = ["add"]
tasks = [
  { name = "length", title = "One interval", points = 2 },
  { name = "total", title = "Several intervals", points = 3 },
  { name = "mini_cu", title = "A kernel", points = 4, stub = "cuda/mini.cu", needs = ["nothing_has_it"] },
]

# the second day
[[exercises]]
id = "more"
title = "And now?"
stub = "week07/day2/more.py"
minutes = 5
difficulty = 1
skills = ["ask"]
tasks = [
  { name = "asked", title = "As the reference says", points = 5 },
]
"""
REFERENCE = '''"""How long?"""

from __future__ import annotations

SCALE = 1


def length(start: int, end: int) -> int:
    """The length of an interval, in ns."""
    # The end may come first.
    earlier, later = min(start, end), max(start, end)
    return (later - earlier) * SCALE


def total(intervals: list) -> int:
    """The lengths of intervals together, in ns."""
    return sum(length(*interval) for interval in intervals)
'''
MORE = '''"""And now?"""


def asked(number: int) -> int:
    """The number after this one."""
    following = number + 1  # that of the seed stays as it is
    answers_of_before = {40: 41, 41: 42}
    return answers_of_before.get(number, following)
'''
CUDA_REFERENCE = """// a kernel
// <solution mini.mini_cu>
__global__ void answer(int* out) { out[threadIdx.x] = 42 * blockIdx.x + threadIdx.x; }
// <stub>
//| // TODO(mini.mini_cu)
//| __global__ void answer(int* out) {}
// </solution>
"""
CHECKS = """from grading.checks import task


@task("mini.length")
def test_length(stub) -> None:
    got = stub.length(3, 10)
    assert got == 7, f"length(3, 10) returned {got}, expected 7 ns: the end minus the start"


@task("mini.total")
def test_total(stub) -> None:
    got = stub.total([[0, 5], [10, 12]])
    assert got == 7, f"total of 5 ns and 2 ns returned {got}, expected 7 ns"
"""
CUDA_CHECKS = """from grading.checks import task


@task("mini.mini_cu")
def test_mini_cu(cuda_stub) -> None:
    assert cuda_stub.source.is_file()
"""
MORE_CHECKS = """from grading.checks import task


@task("more.asked")
def test_asked(stub) -> None:
    assert stub.asked(41) == 42
"""
HINTS = "# Hints\n\n## {0}\n\n### A question\n\nWhat is left?\n\n### A stronger hint\n\nSubtract.\n"
PYPROJECT = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "-p", "grading.runner.plugin", "-p", "grading.checks.fixtures"]
testpaths = ["tests"]
"""
README = """# Day 1

Read [the other day](../day2/README.md), [how it is made](../../CONTRIBUTING.md#steps).

| page | about |
|---|---|
| [instructor-guide.md](../../docs/instructor-guide.md) | not for everyone |
| [mini.py](mini.py) | yours |
"""
FILES = {
    "course.toml": MANIFEST,
    "pyproject.toml": PYPROJECT,
    ".gitignore": ".lab/\n__pycache__/\n.pytest_cache/\n*.log\n",
    "LICENSE": "free\n",
    "CONTRIBUTING.md": "for authors\n",
    "README.md": "See solutions/.\n",
    "docs/instructor-guide.md": "for instructors\n",
    f"solutions/{STUB}": REFERENCE,
    f"solutions/{OTHER}": MORE,
    f"solutions/{CUDA}": CUDA_REFERENCE,
    STUB: REFERENCE,  # the instructor's own copy is solved
    OTHER: MORE,
    CUDA: CUDA_REFERENCE,
    "week07/day1/README.md": README,
    "week07/day2/README.md": "# Day 2\n",
    "week07/day1/hints.md": HINTS.format("length") + HINTS.format("total"),
    "week07/day2/hints.md": HINTS.format("asked"),
    "tests/week07/day1/test_mini.py": CHECKS,
    "tests/week07/day1/test_mini_cu.py": CUDA_CHECKS,
    "tests/week07/day2/test_more.py": MORE_CHECKS,
    "tests/week07/day1/mistakes_mini.toml": "[[mistake]]\nput = 'return start - end'\n",
    "tests/harness/test_proof.py": "def test_nothing(): pass\n",
    "tests/live_score.json": "{}\n",
    "scripts/lessons.py": "print()\n",
    "benchmarks/references.py": 'FILE = "solutions/week07"\n',
    "benchmarks/plain.py": "print()\n",
    "captures/run/given.log": "ignored, and yet part of the course\n",
}
SOLVED_LENGTH = "    return end - start\n"


def git(folder: Path, *words: str) -> str:
    clean = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    who = {f"GIT_{a}_{b}": "x@y" for a in ("AUTHOR", "COMMITTER") for b in ("NAME", "EMAIL")}
    dates = {f"GIT_{a}_DATE": "2026-11-22T10:00:00+00:00" for a in ("AUTHOR", "COMMITTER")}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=os.environ | clean | who | dates,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def run_lab(folder: Path, *words: str, input: str | None = None) -> Result:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(lab, list(words), input=input)
    finally:
        os.chdir(before)


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def solve(folder: Path, body: str = SOLVED_LENGTH) -> None:
    file = folder / STUB
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("    raise NotImplementedError\n", body, 1), encoding="utf-8")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file but git's own, with its mode."""
    out = {}
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        if file.is_file() and inside.parts[0] not in (".git", ".lab"):
            out[inside.as_posix()] = oct(file.stat().st_mode).encode() + file.read_bytes()
    return out
