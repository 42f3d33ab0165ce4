"""What a kept result rests on: it goes stale when that changes, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grading.proof import fingerprint, live_results
from grading.proof.rests_on import WHOLE, Part, closure, total, without_docstrings
from profiling_lab.course import manifest

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "tests/test_x.py": '''
import math
from collections.abc import Iterable, Sequence
from grading.checks import helpers, task
from grading.checks.helpers import near as close

LIMIT = 3
PROBE = "probe.py"


@task("x")
def test_x(stub, made):
    """What it checks."""
    assert close(stub.f(made), LIMIT)  # a comment
    stub.probe(PROBE)


def test_other(stub):
    from grading.checks.words import said
    assert helpers.unused_here(math.pi) and said()
''',
    "grading/checks/__init__.py": "def task(name):\n    return lambda check: check\n",
    "grading/checks/helpers.py": """
import math
from grading.runner.wire import pack

REL = 1e-9


def near(got, want):
    pack(got)
    return math.isclose(got, want, rel_tol=REL)


def unused_here(value):
    return value
""",
    "grading/checks/words.py": "def said():\n    return 'a'\n",
    "grading/checks/fixtures.py": """
import pytest


@pytest.fixture
def made(seed):
    return seed


@pytest.fixture
def seed():
    return 7


@pytest.fixture
def other():
    return 8
""",
    "grading/runner/wire.py": "def pack(value):\n    return value\n",
    "tests/probes/probe.py": "from profiling_lab import times\n\n\ndef now():\n    return times.now()\n",
    "profiling_lab/__init__.py": "",
    "profiling_lab/times.py": "def now():\n    return 0\n\n\ndef later():\n    return 1\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def of(tree: Path, name: str = "test_x") -> str:
    return total(closure([Part(tree / "tests/test_x.py", name)], tree))


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("tests/test_x.py", "LIMIT = 3", "LIMIT = 4"),
        ("tests/test_x.py", "assert close", "assert not close"),
        ("grading/checks/helpers.py", "REL = 1e-9", "REL = 1e-3"),
        ("grading/checks/helpers.py", "rel_tol=REL", "abs_tol=REL"),
        ("grading/checks/helpers.py", "import math", "import cmath as math"),
        ("grading/checks/__init__.py", "check: check", "check: None"),
        ("grading/checks/fixtures.py", "return 7", "return 9"),  # a fixture of a fixture
        ("tests/probes/probe.py", "times.now()", "1"),
        ("profiling_lab/times.py", "return 0", "return 5"),
    ],
)
def test_stale_when_what_it_uses_changes(tree: Path, file: str, before: str, after: str) -> None:
    former = of(tree)
    text = FILES[file]
    assert text.count(before) == 1
    (tree / file).write_text(text.replace(before, after), encoding="utf-8")
    assert of(tree) != former


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("tests/test_x.py", "  # a comment", ""),
        ("tests/test_x.py", "What it checks.", "Other words."),
        ("tests/test_x.py", "Iterable, Sequence", "Iterable, Mapping"),
        ("tests/test_x.py", "helpers.unused_here", "helpers.near"),  # in another check
        ("tests/test_x.py", "import math\n", ""),
        ("grading/checks/helpers.py", "    return value", "    return 2"),
        ("grading/checks/words.py", "'a'", "'b'"),
        ("grading/checks/fixtures.py", "return 8", "return 9"),
        ("grading/runner/wire.py", "return value", "return 2"),
        ("profiling_lab/times.py", "return 1", "return 2"),
    ],
)
def test_and_only_then(tree: Path, file: str, before: str, after: str) -> None:
    former = of(tree)
    text = FILES[file]
    assert text.count(before) == 1
    (tree / file).write_text(text.replace(before, after), encoding="utf-8")
    assert of(tree) == former


def test_a_module_may_be_renamed_or_cut_in_two(tree: Path) -> None:
    former = of(tree)
    helpers = FILES["grading/checks/helpers.py"]
    (tree / "grading/checks/helpers.py").rename(tree / "grading/checks/compare.py")
    (tree / "grading/checks/numbers.py").write_text("REL = 1e-9\n", encoding="utf-8")
    moved = helpers.replace("\nREL = 1e-9\n", "\nfrom grading.checks.numbers import REL\n")
    (tree / "grading/checks/compare.py").write_text(moved, encoding="utf-8")
    check = FILES["tests/test_x.py"].replace("checks.helpers import", "checks.compare import")
    (tree / "tests/test_x.py").write_text(check, encoding="utf-8")
    assert of(tree) == former


def test_an_import_inside_of_a_function_is_followed(tree: Path) -> None:
    former = of(tree, "test_other")
    (tree / "grading/checks/words.py").write_text("def said():\n    return 'b'\n")
    assert of(tree, "test_other") != former


def test_whole_files_and_what_they_import(tree: Path) -> None:
    parts = closure([Part(tree / "tests/test_x.py", WHOLE)], tree)
    names = {(part.file.name, part.name) for part in parts}
    assert {
        ("test_x.py", "test_other"),
        ("helpers.py", "unused_here"),
        ("times.py", "now"),
    } <= names
    assert ("times.py", "later") not in names


def test_docstrings_are_left_out() -> None:
    source = 'def f():\n    """Ä. """\n    return "é"\n\n\nclass A: "b"; x = """c"""\n'
    assert (
        without_docstrings(source)
        == 'def f():\n    ""\n    return "é"\n\n\nclass A: ""; x = """c"""\n'
    )


def test_a_live_result_rests_on_instruments_headers_and_its_own_files() -> None:
    course = manifest.load(ROOT)
    task = next(t for t in course.exercise("ex_31").tasks if t.id == "ex_31.reduction_live")
    parts = {part.file.name for part in fingerprint.parts_of_task(course, task)}
    assert {"on_gpu.py", "toolchain.py", "reduction.cuh", "reduction_student.cu"} <= parts


def kept_of(course: manifest.Course, task: Any, **changed: Any) -> dict[str, Any]:
    parts = sorted(set(fingerprint.parts_of_task(course, task).values()))
    run = {"hashes": {task.id: live_results.hashes(course, task)}, "parts": parts}
    return {"live_run": run | changed}


def test_what_the_proof_speaks_for() -> None:
    course = manifest.load(ROOT)
    exercise = course.exercise("ex_31")
    task = next(t for t in exercise.tasks if t.id == "ex_31.reduction_live")
    kept, portable = kept_of(course, task), live_results.portable_users(course, [exercise])
    assert live_results.stale(course, kept, [exercise]) == [
        t for t in exercise.tasks if t.live and t is not task
    ]
    assert live_results.spoken_for(course, task, kept, portable) == (set(), "")
    by_name = {
        (part.file.name, part.name): text
        for part, text in fingerprint.parts_of_task(course, task).items()
    }

    def without(file: str, name: str) -> dict[str, Any]:
        left = [text for text in kept["live_run"]["parts"] if text != by_name[file, name]]
        return kept_of(course, task, parts=left)

    # The compiler of the checks is used without a GPU as well; what times a kernel is not.
    assert live_results.spoken_for(course, task, without("toolchain.py", "nvcc"), portable) == (
        {"ex_31"},
        "",
    )
    exercises, why = live_results.spoken_for(
        course, task, without("on_gpu.py", "medians"), portable
    )
    assert not exercises and "no task without a GPU uses medians" in why
    other = {task.id: live_results.hashes(course, task) | {"own": "?"}}
    _, why = live_results.spoken_for(course, task, kept_of(course, task, hashes=other), portable)
    assert why == "its own reference or checks changed"
