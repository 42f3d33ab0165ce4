"""Files that one reads in a sitting, and imports at the top: what is otherwise says why.

A file of more than 400 lines has a line `# Long because …`; an import of first-party code inside of a function has
a comment beside or above it (`# Imported late: …` once, where a file has many).
"""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 400
FIRST_PARTY = ("grading", "profiling_lab", "tests", "scripts")
# An exercise is one file for its learner, its reference and its checks have the same name, a lesson is computed by one
# file, programs stay as they were recorded.
EXERCISES = (
    "week07/",
    "labs/",
    "modules/",
    "solutions/",
    "tests/week07/",
    "tests/labs/",
    "tests/modules/",
)
AS_THEY_ARE = (*EXERCISES, "scripts/lesson_sources/", "captures/programs/", "tests/attacks/")


def is_long(source: str) -> bool:
    """Whether a file is long and does not say why."""
    return source.count("\n") > MOST_LINES and "# Long because " not in source


def late_imports(source: str) -> list[int]:
    """Lines of first-party imports inside of functions that have no comment beside or above them.

    A file that has many may say why once: `# Imported late: …`.
    """
    if "# Imported late: " in source:
        return []
    lines = source.splitlines()
    found = {
        node.lineno
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        )
        if (name or "").partition(".")[0] in FIRST_PARTY
    }

    def has_reason(number: int) -> bool:
        above = number - 2
        while above >= 0 and lines[above].lstrip().startswith(("from ", "import ")):
            above -= 1  # imports that stand together have one reason
        return "#" in lines[number - 1] or lines[above].lstrip().startswith("#")

    return sorted(number for number in found if not has_reason(number))


def without_reason() -> set[str]:
    """ "long FILE" and "late FILE" for what does not say why."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    assert files, "nothing was read"
    out = set()
    for name in files:
        if name.startswith(AS_THEY_ARE):
            continue
        source = (ROOT / name).read_text(encoding="utf-8")
        out |= {f"long {name}"} if is_long(source) else set()
        out |= {f"late {name}"} if late_imports(source) else set()
    return out


def test_no_file_is_long_or_imports_late_without_a_reason() -> None:
    found = sorted(without_reason())
    assert not found, f"say why in a comment (see {Path(__file__).name}), or split it: {found}"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("from grading import a\n", []),
        ("def f():\n    import math\n", []),
        ("def f():\n    from grading import a\n", [2]),
        ("def f():\n    import profiling_lab.x as x\n", [2]),
        ("def f():\n    from grading import a  # costs 0.3 s\n", []),
        ("def f():\n    # costs 0.3 s\n    from grading import a\n    from tests import b\n", []),
        ("def f():\n    g()\n    from grading import a\n", [3]),
        ("# Imported late: x.\ndef f():\n    from grading import a\n", []),
        ("class A:\n    def f(self):\n        from grading import a\n", [3]),
    ],
)
def test_late_imports_are_seen(source: str, lines: list[int]) -> None:
    assert late_imports(source) == lines


def test_long_files_are_seen() -> None:
    assert is_long("x = 1\n" * 401) and not is_long("x = 1\n" * 400)
    assert not is_long("# Long because it is a table.\n" + "x = 1\n" * 401)
