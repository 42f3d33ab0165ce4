"""A small course, and `lab` run inside it."""

from __future__ import annotations

import ast
from pathlib import Path

from click.testing import CliRunner, Result

from profiling_lab.cli import lab
from profiling_lab.course import manifest, progress

ROOT = Path(__file__).resolve().parents[3]

STUB = Path("week07/day1/mini.py")
CUDA = Path("week07/day1/cuda/mini.cu")
CHECKS = Path("tests/week07/day1/test_mini.py")

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
  { name = "mini_live", title = "On a GPU", points = 1, live = true, needs = ["gpu"] },
]
"""
REFERENCE = '''"""How long?"""

from __future__ import annotations

SCALE = 1


def length(start: int, end: int) -> int:
    """The length of an interval, in ns."""
    return _scaled(end - start)


def total(intervals: list) -> int:
    """The lengths of intervals together, in ns."""
    return sum(length(*interval) for interval in intervals)


def mini_live() -> int:
    """A live task."""
    return 1


def _scaled(number: int) -> int:
    return number * SCALE
'''
CUDA_REFERENCE = """// a kernel
// <solution mini.mini_cu>
int answer = 42;
// <stub>
//| // TODO(mini.mini_cu)
//| int answer = 0;
// </solution>
"""
CHECK_FILE = """from __future__ import annotations

from grading.checks import task


@task("mini.length")
def test_length(stub) -> None:
    got = stub.length(3, 10)
    assert got == 7, f"length(3, 10) returned {got}, expected 7 ns: the end minus the start"


@task("mini.total")
def test_total(stub) -> None:
    got = stub.total([[0, 5], [10, 12]])
    assert got == 7, f"total of 5 ns and 2 ns returned {got}, expected 7 ns"


@task("mini.total")
def test_total_of_nothing(stub) -> None:
    assert stub.total([]) == 0, "nothing lasts 0 ns"
"""
HINTS = """# Hints

## length

### A question

What is left if you take the start away?

### A stronger hint

Subtract.

## total

### A question

Which function do you have already?

### A stronger hint

Call `length` for each.
"""
PYPROJECT = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "-p", "grading.runner.plugin", "-p", "grading.checks.fixtures"]
testpaths = ["tests"]
"""
RIGHT_LENGTH = "    return end - start\n"
RIGHT_TOTAL = "    return sum(length(*interval) for interval in intervals)\n"


class Lab:
    """A course in a folder, and `lab` run inside it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *arguments: str, **options: object) -> Result:
        return CliRunner().invoke(lab, list(arguments), **options)

    @property
    def course(self) -> manifest.Course:
        return manifest.load(self.root)

    def write(self, path: Path | str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def read(self, path: Path | str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def solve(self, name: str, body: str) -> None:
        """Put a body in place of the NotImplementedError of one function."""
        source = self.read(STUB)
        node = next(
            n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == name
        )
        lines = source.splitlines(keepends=True)
        lines[node.body[-1].lineno - 1 : node.end_lineno] = [body]
        self.write(STUB, "".join(lines))

    def pass_tasks(self, *names: str) -> None:
        """Note verdicts as a run of the checks does."""
        ids = {f"mini.{name}" for name in names}
        progress.update(self.course, {name: ("passed", []) for name in ids}, complete=ids)


def one_line(result: Result, code: int = 2) -> str:
    """The single line of an error."""
    assert result.exit_code == code, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("lab: ")
    assert "Traceback" not in result.output
    return lines[0]


SOLUTIONS = str(ROOT / "solutions")
