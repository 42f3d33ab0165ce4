"""The `lab` command, on a small course of its own in a temporary folder."""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import os
import queue
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from grading.checks.generate import SCENARIOS
from grading.runner.forkserver import ForkServer
from grading.runner.watch import Recheck, Screen, Watcher, affected, run, watch_files
from profiling_lab import record
from profiling_lab.cli import checking, lab
from profiling_lab.cli.app import COMMANDS, SECTIONS
from profiling_lab.cli.proving import own_words
from profiling_lab.course import closure, doctor, manifest, mistakes, progress
from profiling_lab.course.closure import closure_hash
from profiling_lab.course.progress import Verdict
from profiling_lab.errors import LabError

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    out = Lab(tmp_path / "course")
    out.write("course.toml", MANIFEST)
    out.write("pyproject.toml", PYPROJECT)
    out.write(Path("solutions") / STUB, REFERENCE)
    out.write(Path("solutions") / CUDA, CUDA_REFERENCE)
    out.write(CHECKS, CHECK_FILE)
    out.write(STUB.parent / "hints.md", HINTS)
    out.write(STUB.parent / "README.md", "# How long?\n")
    monkeypatch.chdir(out.root)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert out("dev", "stub", "mini").exit_code == 0
    return out


def one_line(result: Result, code: int = 2) -> str:
    """The single line of an error."""
    assert result.exit_code == code, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("lab: ")
    assert "Traceback" not in result.output
    return lines[0]


# -- the frame ----------------------------------------------------------------------------------


def test_help_names_every_command(small: Lab) -> None:
    result = small("--help")
    assert result.exit_code == 0
    for title, commands in SECTIONS.items():
        assert title in result.output
        assert all(name in result.output for name in commands)
    assert all(len(line) <= 80 for line in result.output.splitlines())


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "record"])
def test_help_of_each_command_teaches(name: str, small: Lab) -> None:
    result = small(name, "--help")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) >= 6
    assert all(len(line) <= 80 for line in result.output.splitlines())


def test_usage_errors_are_one_line(small: Lab) -> None:
    assert "did you mean check?" in one_line(small("chek"))
    assert "see lab hint --help" in one_line(small("hint", "--nothing"))
    assert "FILE" in one_line(small("diagnose"))


def test_unknown_ids_come_with_a_suggestion(small: Lab) -> None:
    for command in ("check", "hint", "solution", "reset"):
        assert "did you mean mini.length" in one_line(small(command, "mini.lenght"))
        assert "did you mean mini" in one_line(small(command, "minni"))


def test_outside_a_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outside = Lab(tmp_path)
    for arguments in (["check", "x"], ["hint"], ["submit"], []):
        assert "not inside the course" in one_line(outside(*arguments))


def test_light_commands_import_nothing_heavy(small: Lab) -> None:
    heavy = {"polars", "numpy", "torch", "pytest", "rich", "jinja2", "watchfiles", "grading"}
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from profiling_lab.cli import lab\n"
        "for arguments in ([], ['hint', 'mini.length'], ['--help']):\n"
        "    assert CliRunner().invoke(lab, arguments).exit_code == 0\n"
        f"print(sorted({heavy!r} & {{name.split('.')[0] for name in sys.modules}}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# -- status, check, hint ------------------------------------------------------------------------


def test_status_says_where_and_what_next(small: Lab) -> None:
    result = small()
    assert result.exit_code == 0
    assert "0 of 9 points" in result.output
    assert "Next: mini.length" in result.output
    assert "lab hint mini.length" in result.output
    assert "This machine:" in result.output
    assert "\x1b" not in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())
    assert len(result.output.splitlines()) < 24


def test_what_is_not_installed_is_said_with_its_command(
    small: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "1 task needs torch, not installed here: uv sync --inexact --group frameworks"
    needy = (small.root / "course.toml").read_text().replace("nothing_has_it", "torch")
    (small.root / "course.toml").write_text(needy)
    monkeypatch.setattr(doctor, "capabilities", frozenset)
    for command in ([], ["submit"]):
        assert says in " ".join(small(*command).output.split())
    assert small("report", "--progress", "-o", "page.html").exit_code == 0
    page = (small.root / "page.html").read_text(encoding="utf-8")
    assert says in page
    links = [place for place in re.findall(r'href="([^"#]+)"', page) if ":" not in place]
    assert links and all((small.root / place).exists() for place in links), links
    passed = dict.fromkeys(manifest.load(small.root).tasks, Verdict("passed"))
    passed["mini.mini_cu"] = Verdict("not run")
    monkeypatch.setattr(progress, "verdicts", lambda course: passed)
    assert "All that runs here is done." in small().output
    assert says in " ".join(small("check").output.split())
    monkeypatch.setattr(doctor, "capabilities", lambda: frozenset({"torch"}))
    assert "not installed here" not in small().output


def test_status_works_in_a_subfolder(small: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.root / STUB.parent)
    assert "write   length in mini.py" in small().output


def test_status_goes_on_with_what_is_begun(small: Lab) -> None:
    small.solve("total", RIGHT_TOTAL)
    assert "Next: mini.total" in small().output
    small.pass_tasks("total")
    result = small()
    assert "3 of 9 points" in result.output
    assert "Next: mini.length" in result.output


def test_check_of_what_is_untouched_is_todo_and_no_success(
    small: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    assert small("check", "mini").exit_code == 1
    out = capfd.readouterr().out
    assert "todo" in out
    assert "0 of 5 points" in out
    small.solve("total", RIGHT_TOTAL)
    assert small("check", "mini").exit_code == 0, "what is still to do does not fail the rest"
    assert small("check", "mini.length").exit_code == 1


def test_check_runs_only_the_checks_of_its_task(
    small: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    small.solve("length", "    return 5\n")
    small.solve("total", RIGHT_TOTAL)
    assert small("check", "mini.length").exit_code == 1
    out = capfd.readouterr().out
    assert "expected 7 ns: the end minus the start" in out
    assert "total" not in out
    small.solve("length", RIGHT_LENGTH)
    assert small("check", "length").exit_code == 0
    assert small("check", str(STUB)).exit_code == 0
    assert progress.verdicts(small.course)["mini.total"].outcome == "passed"


def test_check_against_the_reference(small: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    assert small("check", "mini", "--against", "solutions").exit_code == 0
    assert "5 of 5 points" in capfd.readouterr().out
    assert progress.verdicts(small.course)["mini.length"].outcome == "todo"
    assert "no such folder" in one_line(small("check", "mini", "--against", "nowhere"))


def test_check_says_when_the_code_ends_the_process(small: Lab) -> None:
    small.solve("length", "    import os\n    os._exit(0)\n")
    assert "ended the whole process" in one_line(small("check", "mini.length"), code=1)


def test_check_with_a_bad_capture(small: Lab, tmp_path: Path) -> None:
    assert "no such file or capture" in one_line(small("check", "mini", "--capture", "nope"))
    file = tmp_path / "text.sqlite"
    file.write_text("not a database")
    assert str(file) in one_line(small("check", "mini", "--capture", str(file)))


@pytest.mark.parametrize(
    ("exercise", "capture", "said"),
    [
        ("ex_30", "ncu_shared", "holds no timeline.sqlite; it has"),
        ("ex_31", "torch_train_sync", "a capture of kind trace; ex_31 reads kernels"),
        ("ex_32", "ncu_shared", "a capture of kind kernels; ex_32 reads trace"),
        ("ex_34", "nope", "no such file or capture"),
    ],
)
def test_check_wants_a_capture_of_the_kind_that_an_exercise_reads(
    exercise: str, capture: str, said: str
) -> None:
    with pytest.raises(LabError, match=re.escape(said)):
        checking._own_capture(capture, manifest.load(ROOT).exercise(exercise))


@pytest.mark.parametrize(
    ("exercise", "capture", "place"),
    [
        ("ex_30", "two_streams", "two_streams/timeline.sqlite"),
        ("ex_31", "ncu_shared", "ncu_shared"),
        ("ex_32", "torch_train_sync", "torch_train_sync"),
        ("ex_33", "roofline_ops", "roofline_ops"),
        ("ex_34", "serving_sweep_eager", "serving_sweep_eager"),
    ],
)
def test_check_takes_captures_of_every_exercise(exercise: str, capture: str, place: str) -> None:
    found = checking._own_capture(capture, manifest.load(ROOT).exercise(exercise))
    assert found == ROOT / "captures" / place


def test_check_of_a_task_without_checks(small: Lab) -> None:
    assert "has no checks yet" in one_line(small("check", "mini.mini_cu"))


def test_hint_asks_first_and_grows_stronger(small: Lab) -> None:
    first = small("hint", "mini.length")
    assert first.exit_code == 0
    assert "What is left" in first.output
    assert "Subtract" not in first.output
    assert "A stronger hint: uv run lab hint mini.length" in first.output
    second = small("hint", "mini.length")
    assert "Subtract" in second.output
    assert "That was all" in second.output
    assert "total" not in second.output
    assert json.loads(small.read(".lab/hints.json")) == {"mini.length": 2}


def test_hint_at_once_and_for_what_is_next(small: Lab) -> None:
    assert "Call `length`" in small("hint", "total", "--more").output
    assert "mini.length" in small("hint").output
    small.pass_tasks("length")
    small.solve("length", RIGHT_LENGTH)
    small.pass_tasks("length")
    assert "mini.total" in small("hint", "mini").output


def test_hint_without_a_section(small: Lab) -> None:
    assert "no section for mini.mini_cu" in one_line(small("hint", "mini.mini_cu"))
    (small.root / STUB.parent / "hints.md").unlink()
    assert "no hints there" in one_line(small("hint", "mini.length"))


# -- solution, submit, reset, update --------------------------------------------------------------


def test_solution_only_after_it_passes(small: Lab) -> None:
    assert "still to do" in one_line(small("solution", "mini.length"), code=1)
    small.solve("length", RIGHT_LENGTH)
    assert "not checked since it changed" in one_line(small("solution", "mini.length"), code=1)
    small.pass_tasks("length")
    result = small("solution", "mini.length")
    assert result.exit_code == 0
    assert "def length" in result.output
    assert "def _scaled" in result.output
    assert "def total" not in result.output
    path = small("solution", "mini.length", "--path").stdout.strip()
    assert path == str(Path("solutions") / STUB)
    assert "3 tasks" not in result.output
    assert "have not passed yet" in one_line(small("solution", "mini"), code=1)


def test_submit_packs_exactly_the_stubs(small: Lab) -> None:
    small.solve("length", RIGHT_LENGTH)
    small.pass_tasks("length")
    small.write(STUB.parent / "notes.txt", "mine")
    result = small("submit", "--output", "ada.zip")
    assert result.exit_code == 0
    with zipfile.ZipFile(small.root / "ada.zip") as archive:
        assert archive.namelist() == [STUB.as_posix(), CUDA.as_posix()]
        assert archive.read(STUB.as_posix()).decode() == small.read(STUB)
    assert "2 of 9 points at the last check" in result.output
    assert "still to do: mini.total, mini.mini_cu" in result.output
    first = (small.root / "ada.zip").read_bytes()
    assert small("submit", "--output", "ada.zip").exit_code == 0
    assert (small.root / "ada.zip").read_bytes() == first


def test_submit_names_missing_files_and_bad_places(small: Lab) -> None:
    (small.root / CUDA).unlink()
    result = small("submit")
    assert "missing, counts as to do" in result.output
    assert (small.root / "submission.zip").is_file()
    assert "no folder" in one_line(small("submit", "--output", "nowhere/ada.zip"))


def test_reset_of_an_exercise_backs_up_first(small: Lab) -> None:
    fresh = small.read(STUB)
    small.solve("length", RIGHT_LENGTH)
    mine = small.read(STUB)
    declined = small("reset", "mini", input="n\n")
    assert declined.exit_code == 1
    assert small.read(STUB) == mine
    result = small("reset", "mini", "--yes")
    assert result.exit_code == 0
    assert small.read(STUB) == fresh
    backups = list((small.root / ".lab" / "backups").glob(f"*/{STUB.as_posix()}"))
    assert [file.read_text() for file in backups] == [mine]
    assert "already" in small("reset", "mini", "--yes").output


def test_reset_of_one_function_keeps_the_others(small: Lab) -> None:
    small.solve("length", "    return 0\n")
    small.solve("total", RIGHT_TOTAL)
    assert small("reset", "mini.length", "--yes").exit_code == 0
    source = small.read(STUB)
    assert RIGHT_TOTAL in source
    assert manifest.todo_functions(source) >= {"length"}
    assert "total" not in manifest.todo_functions(source)


def test_reset_of_a_file_that_does_not_parse(small: Lab) -> None:
    small.write(STUB, "def length(:\n")
    assert "line 1" in one_line(small("reset", "mini.length", "--yes"))
    assert small("reset", "mini", "--yes").exit_code == 0


def test_update_refreshes_untouched_and_keeps_edited(small: Lab) -> None:
    small("update")
    small.write(Path("solutions") / STUB, REFERENCE.replace("How long?", "For how long?"))
    result = small("update")
    assert f"refreshed  {STUB}" in result.output
    assert "For how long?" in small.read(STUB)
    small.solve("length", RIGHT_LENGTH)
    mine = small.read(STUB)
    changed = REFERENCE.replace("lengths of intervals together", "sum of the lengths")
    small.write(Path("solutions") / STUB, changed)
    result = small("update")
    assert f"kept       {STUB}" in result.output
    assert "the contract of total changed" in result.output
    assert small.read(STUB) == mine


def test_update_names_new_tasks_and_reset_adds_them(small: Lab) -> None:
    small("update")
    small.solve("length", RIGHT_LENGTH)
    more = 'def longest(intervals: list) -> int:\n    """The longest."""\n    return 1\n'
    small.write(Path("solutions") / STUB, REFERENCE + "\n\n" + more)
    task = '{ name = "longest", title = "The longest", points = 1 },\n]'
    small.write("course.toml", MANIFEST.replace("\n]\n", "\n  " + task + "\n"))
    result = small("update")
    assert "lacks longest; add it: uv run lab reset mini.longest" in result.output
    assert small("reset", "mini.longest", "--yes").exit_code == 0
    source = small.read(STUB)
    assert "def longest" in source
    assert RIGHT_LENGTH in source


def test_update_recognises_old_stubs_in_the_git_history(small: Lab) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(
            ["git", *identity, *arguments], cwd=small.root, check=True, capture_output=True
        )

    if shutil.which("git") is None:
        pytest.fail("git is needed to clone the course, and so to test it")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    small.write(Path("solutions") / STUB, REFERENCE.replace("How long?", "For how long?"))
    git("commit", "-qam", "second")
    shutil.rmtree(small.root / ".lab", ignore_errors=True)
    assert f"refreshed  {STUB}" in small("update").output
    # The learner's own commits are no stubs that the course generated.
    small.solve("length", RIGHT_LENGTH)
    git("commit", "-qam", "mine")
    small.write(Path("solutions") / STUB, REFERENCE.replace("How long?", "How much?"))
    git("commit", "-qam", "third")
    shutil.rmtree(small.root / ".lab", ignore_errors=True)
    assert f"kept       {STUB}" in small("update").output


# -- dev ----------------------------------------------------------------------------------------


def test_dev_stub_check_says_what_differs(small: Lab) -> None:
    assert small("dev", "stub", "mini", "--check").exit_code == 0
    small.solve("length", RIGHT_LENGTH)
    result = small("dev", "stub", "mini", "--check")
    assert f"differs  {STUB}" in result.stdout
    one_line(result, code=1)
    assert "def total" in small("dev", "stub", "mini", "--print", "total").output
    assert small("dev", "stub", "mini").exit_code == 0
    assert small("dev", "stub", "mini", "--check").exit_code == 0


def test_dev_new_makes_five_parts_that_check(small: Lab) -> None:
    result = small("dev", "new", "more_ex01", "--folder", "week07/day2")
    assert result.exit_code == 0, result.output
    exercise = small.course.exercise("more_ex01")
    assert small.course.lesson(exercise).is_file()
    assert small.course.hints(exercise).is_file()
    assert len(mistakes.read(small.course, exercise.stub)) == 2
    assert small("hint", "more_ex01").exit_code == 0
    assert small("check", "more_ex01").exit_code == 1  # nothing is written yet
    proven = small("dev", "check", "more_ex01")
    assert proven.exit_code == 0, proven.output
    assert "on the reference" in proven.output
    assert " s" in proven.output
    assert "in course.toml already" in one_line(
        small("dev", "new", "more_ex01", "--folder", "week07/day3")
    )
    assert "lower-case" in one_line(small("dev", "new", "More", "--folder", "week07/day3"))


def test_dev_new_adds_a_second_exercise_to_a_folder_in_its_order(small: Lab) -> None:
    for identifier, folder in (
        ("late", "week07/day9"),
        ("one", "week07/day2"),
        ("two", "week07/day2"),
    ):
        result = small("dev", "new", identifier, "--folder", folder, "--title", identifier)
        assert result.exit_code == 0, result.output
    ids = [
        exercise.id for exercise in small.course.exercises if exercise.folder.parts[0] == "week07"
    ]
    assert ids[-3:] == ["one", "two", "late"]
    lesson = small.course.lesson(small.course.exercise("two"))
    source = small.course.root / "scripts/lesson_sources/week07/day2/README.md"
    assert lesson.read_text() == source.read_text()
    assert [title in lesson.read_text() for title in ("# one\n", "## two\n", "### Your task")]
    for identifier in ("one", "two"):
        assert small("hint", f"{identifier}.first_task").exit_code == 0
        assert small("dev", "check", identifier).exit_code == 0


def test_dev_check_says_a_failed_checks_own_words() -> None:
    assert own_words("AssertionError: 19 points, not 20\nassert 19 == 20") == [
        "AssertionError: 19 points, not 20",
        "assert 19 == 20",
    ]
    inner = "..F.. [100%]\n> assert total == 3\nE   assert 2 == 3\nE    +  where 2 = f()\n1 failed"
    assert own_words(f"AssertionError: {inner}") == ["assert 2 == 3", "+  where 2 = f()"]
    assert own_words("AssertionError: ..F.. [100%]\nno such option: --x") == ["no such option: --x"]
    collecting = (
        "E   AssertionError: ImportError\nE   Traceback:\nE   E   ImportError: no such name"
    )
    assert own_words(collecting) == ["ImportError: no such name"]
    assert own_words("") == []


def test_dev_check_says_what_is_missing(small: Lab) -> None:
    result = small("dev", "check", "mini")
    assert result.exit_code == 1
    assert "lacking for mini_cu, mini_live" in result.output
    assert "two mistakes caught a task (0 in all)" in result.output


# -- captures -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    made: dict[tuple, Path] = {}

    def make(name: str, seed: int = 7, **options: object) -> Path:
        key = name, seed, *sorted(options.items())
        if key not in made:
            folder = tmp_path_factory.mktemp("captures")
            made[key] = SCENARIOS[name](seed=seed, folder=folder, **options).path
        return made[key]

    return make


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)
    return Lab(tmp_path)


SOLUTIONS = str(ROOT / "solutions")


def test_diagnose_with_the_reference(outside: Lab, scenario: Callable[..., Path]) -> None:
    result = outside("diagnose", str(scenario("sync_bound")), "--against", SOLUTIONS)
    assert result.exit_code == 0, result.output
    for words in ("sync_bound", "Where the time went", "Largest gaps", "What would be saved"):
        assert words in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "\x1b" not in result.stdout


def test_diagnose_json_is_a_list_of_findings(outside: Lab, scenario: Callable[..., Path]) -> None:
    files = [str(scenario("sync_bound")), str(scenario("healthy"))]
    one = json.loads(outside("diagnose", files[0], "--json", "--against", SOLUTIONS).stdout)
    keys = {"category", "subject", "evidence", "recommendation", "borderline"}
    assert all(set(row) == keys for row in one)
    assert one[0]["category"] == "sync_bound"
    two = json.loads(outside("diagnose", *files, "--json", "--against", SOLUTIONS).stdout)
    first = {row["capture"]: row["category"] for row in reversed(two)}
    assert first == {Path(files[0]).stem: "sync_bound", Path(files[1]).stem: "healthy"}


def test_diagnose_fails_on_a_category(outside: Lab, scenario: Callable[..., Path]) -> None:
    file = str(scenario("sync_bound"))
    arguments = ["diagnose", file, "--json", "--against", SOLUTIONS, "--fail-on"]
    hit = outside(*arguments, "launch_bound,sync_bound")
    assert "is sync_bound" in one_line(hit, code=1)
    assert json.loads(hit.stdout)
    assert outside(*arguments, "transfer_bound").exit_code == 0
    assert "did you mean sync_bound?" in one_line(outside(*arguments, "syncbound"))


def test_diagnose_looks_at_one_range(outside: Lab, scenario: Callable[..., Path]) -> None:
    file = str(scenario("nested_gaps"))
    arguments = ["diagnose", file, "--against", SOLUTIONS, "--range"]
    assert "no_such_range" in one_line(outside(*arguments, "no_such_range"))


def test_diagnose_shows_several_devices(outside: Lab, scenario: Callable[..., Path]) -> None:
    result = outside("diagnose", str(scenario("two_devices")), "--against", SOLUTIONS)
    assert result.exit_code == 0, result.output
    assert "device 0" in result.stdout
    assert "device 1" in result.stdout


def test_diagnose_names_what_is_still_to_do(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    stub = tmp_path / "mine.py"
    stub.write_text(
        "def find_window(capture, nvtx_range=None):\n    return 0, 10**9\n\n\n"
        "def busy_time(capture, nvtx_range=None):\n    return 'much'\n\n\n"
        "def idle_gaps(capture, nvtx_range=None, min_gap_ns=0):\n    return 1 / 0\n\n\n"
        "def recoverable_time(capture, nvtx_range=None):\n    raise NotImplementedError\n\n\n"
        "def name_bottleneck(capture, nvtx_range=None):\n    return recoverable_time(capture)\n"
    )
    file = str(scenario("healthy"))
    result = outside("diagnose", file, "--against", str(stub))
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "busy_time returned 'much', not a dictionary" in said
    assert "idle_gaps raised ZeroDivisionError: division by zero (mine.py, line 10)" in said
    assert "still to do: recoverable_time, name_bottleneck" in said
    assert "window 1.00 s" in said
    assert "no finding" in one_line(outside("diagnose", file, "--against", str(stub), "--json"))
    assert "cannot judge" in one_line(
        outside("diagnose", file, "--against", str(stub), "--fail-on", "sync_bound")
    )


FINDS = """
def unit_use(kernel):
    return {"dram": 0.93 if kernel["name"] == "copy" else 0.2, "l1": None}


def estimate_gain(kernel, cause):
    return 2.0 if (kernel["name"], cause) == ("turn", "bank_conflicts") else 1.0


def classify_kernel(kernel):
    return "memory_bound" if kernel["name"] == "copy" else "bank_conflicts"


def name_trace_bottleneck(capture):
    raise NotImplementedError
"""


def test_diagnose_tells_kernels_and_traces_by_their_content(outside: Lab, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(FINDS)
    kernels = tmp_path / "run.csv"
    counters = ("gpu__time_duration.sum", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed")
    where = ("ID", "Kernel Name", "Block Size", "Grid Size", "CC")
    rows = ["==PROF== Connected", ",".join((*where, *counters)), ",,,,,us,%"]
    rows += [f'0,{name},"(256, 1, 1)","(9, 1, 1)",9.0,10,93' for name in ("copy", "turn")]
    kernels.write_text("\n".join(rows))
    result = outside("diagnose", str(kernels), "--against", str(mine))
    assert result.exit_code == 0, result.output
    for words in ("memory_bound  kernel:copy", "93.0%", "bank_conflicts  kernel:turn", "→ pad"):
        assert words in result.stdout
    found = json.loads(outside("diagnose", str(kernels), "--json", "--against", str(mine)).stdout)
    assert [row["subject"] for row in found] == ["kernel:turn", "kernel:copy"], "the main one first"
    trace = tmp_path / "run.json.gz"
    trace.write_bytes(gzip.compress(b'{"traceEvents": [{"cat": "kernel"}]}'))
    told = outside("diagnose", str(trace), "--against", str(mine))
    assert told.exit_code == 0, told.output
    assert "still to do: name_trace_bottleneck" in told.stdout
    assert "no finding" in one_line(
        outside("diagnose", str(trace), "--against", str(mine), "--json")
    )
    other = tmp_path / "notes.txt"
    other.write_text("hello\n")
    assert "neither" in one_line(outside("diagnose", str(other), "--against", str(mine)))


def test_report_draws_counters_as_a_roofline(outside: Lab, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "def roofline_points(capture):\n"
        "    return [{'name': 'a <b>', 'intensity': 0.25, 'rate_flops_per_s': 1e12,\n"
        "             'flops_source': 'counters'},\n"
        "            {'name': 'unknown', 'intensity': None, 'rate_flops_per_s': None}]\n"
    )
    counters = tmp_path / "counted" / "counters.json"
    counters.parent.mkdir()
    kernels = [{"name": "a <b>", "dtype": "float32"}, {"name": "unknown", "dtype": None}]
    counters.write_text(json.dumps({"format": 1, "device": "NVIDIA H200", "kernels": kernels}))
    page = tmp_path / "page.html"
    result = outside("report", str(counters.parent), "--against", str(mine), "-o", str(page))
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "a &lt;b&gt;" in text and "a <b>" not in text
    assert "Not placed, for want of a count or a peak: unknown" in text
    told = outside("diagnose", str(counters.parent), "--against", str(mine))
    assert "report" in one_line(told)


def test_outside_a_course_the_engine_answers_and_ones_own_functions_are_missed(
    outside: Lab, scenario: Callable[..., Path]
) -> None:
    path = str(scenario("healthy"))
    told = json.loads(outside("diagnose", path, "--json").stdout)
    assert told["findings"][0]["category"] == "healthy" and told["file"] == Path(path).stem
    assert "--against PATH" in one_line(outside("diagnose", path, "--mine"))
    assert "no such folder" in one_line(outside("diagnose", path, "--against", "nowhere"))


def test_functions_that_cannot_be_imported(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    for text, words in (
        ("def busy_time(:\n", "line 1"),
        ("x = 1\nimport no_such_module_here\n", "line 2: ModuleNotFoundError at import"),
        ("raise SystemExit(3)\n", "SystemExit at import"),
    ):
        file = tmp_path / "mine.py"
        file.write_text(text)
        line = one_line(outside("diagnose", str(scenario("healthy")), "--against", str(file)))
        assert words in line


def _truncated(good: Path, bad: Path) -> None:
    bad.write_bytes(good.read_bytes()[: good.stat().st_size // 2])


def _text(good: Path, bad: Path) -> None:
    bad.write_text("kernel,duration\n")


def _empty(good: Path, bad: Path) -> None:
    bad.write_bytes(b"")


def _other_database(good: Path, bad: Path) -> None:
    with sqlite3.connect(bad) as connection:
        connection.execute("CREATE TABLE notes (text)")


def _without_a_column(good: Path, bad: Path) -> None:
    shutil.copy(good, bad)
    with sqlite3.connect(bad) as connection:
        connection.execute(
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN streamId TO somethingElse"
        )


def _without_kernels(good: Path, bad: Path) -> None:
    shutil.copy(good, bad)
    with sqlite3.connect(bad) as connection:
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
        connection.execute("DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_GRAPH_TRACE")


def _without_the_table(good: Path, bad: Path) -> None:
    shutil.copy(good, bad)
    with sqlite3.connect(bad) as connection:
        connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
        connection.execute("DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_GRAPH_TRACE")


BAD = {
    "truncated": (_truncated, "truncated"),
    "text": (_text, "SQLite"),
    "empty": (_empty, "is empty"),
    "other_database": (_other_database, "not an Nsight Systems export"),
    "without_a_column": (_without_a_column, "streamId"),
    "without_kernels": (_without_kernels, "no kernel"),
    "without_the_table": (_without_the_table, "CUPTI_ACTIVITY_KIND_KERNEL"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", ["diagnose", "compare", "report"])
def test_bad_captures_are_one_line(
    kind: str, command: str, outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    make, words = BAD[kind]
    if kind == "without_kernels" and command != "diagnose":
        return  # what copies cost can be judged; a function of the course wants a kernel
    good = scenario("transfer_bound")
    bad = tmp_path / f"{kind}.sqlite"
    make(good, bad)
    before = hashlib.sha256(bad.read_bytes()).hexdigest()
    files = [str(bad)] if command != "compare" else [str(good), str(bad)]
    whose = ["--against", SOLUTIONS] if command == "diagnose" else []
    line = one_line(outside(command, *files, *whose))
    assert words in line
    assert bad.name in line
    assert hashlib.sha256(bad.read_bytes()).hexdigest() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [bad.name]


def test_missing_captures_and_folders(
    outside: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Callable[..., Path]
) -> None:
    shipped = tmp_path / "captures"
    (shipped / "one_of_them").mkdir(parents=True)
    shutil.copy(scenario("healthy"), shipped / "one_of_them" / "timeline.sqlite")
    monkeypatch.setenv("LAB_CAPTURES", str(shipped))
    line = one_line(outside("diagnose", "another", "--against", SOLUTIONS))
    assert "captures here: one_of_them" in line
    shutil.copy(scenario("healthy"), tmp_path / "my_run.sqlite")
    line = one_line(outside("diagnose", str(tmp_path / "my_rum.sqlite"), "--against", SOLUTIONS))
    assert f"did you mean {tmp_path / 'my_run.sqlite'}?" in line
    (tmp_path / "folder").mkdir()
    assert "folder" in one_line(outside("diagnose", "folder", "--against", SOLUTIONS))
    assert outside("diagnose", "one_of_them", "--against", SOLUTIONS).exit_code == 0


def test_no_permission(
    outside: Lab, monkeypatch: pytest.MonkeyPatch, scenario: Callable[..., Path]
) -> None:
    file = scenario("healthy")
    real = Path.open

    def refuse(self: Path, *arguments: Any, **options: Any) -> object:
        if self.name == file.name:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    line = one_line(outside("diagnose", str(file), "--against", SOLUTIONS))
    assert "no permission to read it" in line


def test_compare_flags_a_regression(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    fast, slow = scenario("sync_bound", seed=3), tmp_path / "slow.sqlite"
    shutil.copy(fast, slow)
    with sqlite3.connect(slow) as connection:  # its last kernel takes 5 ms longer
        connection.execute(
            'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = "end" + 5000000 '
            "WHERE start = (SELECT MAX(start) FROM CUPTI_ACTIVITY_KIND_KERNEL)"
        )
    same = outside("compare", str(fast), str(fast))
    assert same.exit_code == 0
    assert "No change beyond the tolerance of 2.0%" in same.stdout
    better = outside("compare", str(slow), str(fast))
    assert better.exit_code == 0
    assert "faster" in better.stdout
    worse = outside("compare", str(fast), str(slow))
    assert worse.exit_code == 1
    assert "Regression" in worse.stdout
    assert "grew" in worse.stdout
    assert all(len(line) <= 80 for line in worse.stdout.splitlines())
    assert outside("compare", str(fast), str(slow), "--tolerance", "1000").exit_code == 0
    assert "tolerance" in one_line(outside("compare", str(fast), str(slow), "--tolerance", "-1"))


def test_compare_asks_the_engine_and_nobody_else(
    outside: Lab, scenario: Callable[..., Path]
) -> None:
    file = str(scenario("transfer_bound"))
    result = outside("compare", file, file)
    assert result.exit_code == 0
    assert "Window" in result.stdout
    assert "Bytes copied" in result.stdout
    rows = json.loads(outside("compare", file, file, "--json").stdout)
    assert {row["group"] for row in rows["rows"]} >= {"time", "spent", "copies", "saved", "kernels"}
    assert rows["window_ratio"] == 1.0


def test_compare_totals_agree_with_sql(outside: Lab, scenario: Callable[..., Path]) -> None:
    file = scenario("transfer_bound")
    rows = json.loads(outside("compare", str(file), str(file), "--json").stdout)["rows"]
    with sqlite3.connect(file) as connection:
        expected = dict(
            connection.execute(
                'SELECT s.value, SUM(k."end" - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k '
                "JOIN StringIds AS s ON s.id = k.shortName GROUP BY s.value"
            ).fetchall()
        )
        copied = connection.execute("SELECT SUM(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY").fetchone()
    totals = {r["what"]: r["before"] for r in rows if r["group"] == "kernels" and r["unit"] == "ns"}
    assert totals == expected
    assert next(row for row in rows if row["what"] == "Bytes copied")["before"] == copied[0]


def test_report_writes_one_page(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    files = [str(scenario("sync_bound")), str(scenario("healthy"))]
    result = outside("report", *files, "--output", "page.html", "--against", SOLUTIONS)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "sync_bound" in page
    line = one_line(outside("report", *files, "--output", "nowhere/page.html"))
    assert "there is no folder" in line


def test_demo_diagnoses_two_pairs(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    for name, source in (
        ("torch_inference_baseline", scenario("sync_bound")),
        ("torch_inference_improved", scenario("healthy")),
        ("cuda_pipeline_baseline", scenario("transfer_bound")),
        ("cuda_pipeline_improved", scenario("copies_and_kernels")),
    ):
        (shipped / name).mkdir(parents=True)
        shutil.copy(source, shipped / name / "timeline.sqlite")
    monkeypatch.setenv("LAB_CAPTURES", str(shipped))
    result = outside("demo")
    assert result.exit_code == 0, result.output
    for words in ("sync_bound", "transfer_bound", "lab-demo.html", "Next:"):
        assert words in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert (tmp_path / "lab-demo.html").stat().st_size > 10_000


def test_demo_without_captures(
    outside: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_CAPTURES", str(tmp_path / "nothing"))
    assert "holds none of the demo's captures" in one_line(outside("demo"))


def test_doctor_and_record_pass_on(outside: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    item = doctor.Item("GPU", "missing", "no NVIDIA GPU", "recorded work runs")
    monkeypatch.setattr(doctor, "examine", lambda: [item])
    result = outside("doctor")
    assert result.exit_code == 0
    assert "no NVIDIA GPU" in result.output
    assert json.loads(outside("doctor", "--json").stdout)[0]["state"] == "missing"
    seen: list = []
    monkeypatch.setattr(record, "main", lambda argv: seen.append(argv) or 0)
    assert outside("record", "--only", "name", "--help").exit_code == 0
    assert seen == [["--only", "name", "--help"]]


# -- watch --------------------------------------------------------------------------------------


BEFORE = """import math
LIMIT = 3

def a():
    return _helper()

def b():
    return a() + LIMIT

def c():
    return 1

def _helper():
    return 1
"""


@pytest.mark.parametrize(
    ("old", "new", "direct", "others"),
    [
        ("", "", "", ""),
        ("import math", "# a comment\nimport math", "", ""),
        ("def c():\n    return 1", "def c():\n    return 2", "c", ""),
        ("def _helper():\n    return 1", "def _helper():\n    return 2", "", "ab"),
        ("return _helper()", "return 7", "a", "b"),
        ("LIMIT = 3", "LIMIT = 4", "", "b"),
        ("import math", "import os", "", "abc"),
        ("def c():", "def c(:", "", "abc"),
    ],
)
def test_affected_follows_uses(old: str, new: str, direct: str, others: str) -> None:
    after = BEFORE.replace(old, new) if old else BEFORE
    assert affected(BEFORE, after, {"a", "b", "c"}) == (set(direct), set(others))


def test_closure_hash_changes_with_what_is_used() -> None:
    names = ("a", "b", "c")
    before = {name: closure_hash(BEFORE, name) for name in names}

    def altered(old: str, new: str) -> str:
        return "".join(n for n in names if closure_hash(BEFORE.replace(old, new), n) != before[n])

    assert altered("LIMIT = 3", "LIMIT = 4") == "b"
    assert altered("def _helper():\n    return 1", "def _helper():\n    return 2") == "ab"
    assert altered("import math", "import os") == "abc"
    assert altered("import math", "# words\nimport math") == ""
    assert altered("def c():", "def c(:") == "abc"


SAMPLE = '''
LIMIT = {"a": 1}  # what is allowed
@cached
def shown(rows):
    """Words."""
    return [
        f"{row['name']!r:>{LIMIT["a"]}} {'ns'}" f"""{
            row}""" for row in rows]
'''.replace('LIMIT["a"]', "LIMIT")


def test_words_of_code_are_those_that_were_typed() -> None:
    assert closure.words("def f( x ):  # why\n\n    return f'{x!r}' + 'a'\n") == (
        "def f ( x ) : NEWLINE INDENT return f'{x!r}' + 'a' NEWLINE DEDENT"
    )
    assert closure.words(SAMPLE) == closure.words(
        SAMPLE.replace("  # what is allowed", "").replace(", ", ",  ")
    )
    assert closure.words(SAMPLE) != closure.words(SAMPLE.replace("'ns'", "'us'"))
    beside = "a = 1; b = (\n    2)\n"  # lines that two statements share
    assert closure_hash(beside, "a") != closure_hash(beside.replace("1", "3"), "a")
    # The same under every Python, where ast.unparse and ast.dump of it differ.
    assert closure_hash(SAMPLE, "shown") == "5274e1fe3b935589"


@pytest.fixture
def watching(small: Lab) -> Iterator[tuple[Lab, object]]:
    with ForkServer(parallel=1) as server:
        course = small.course
        yield small, Watcher(course, course.tasks.values(), server)


def test_watch_checks_what_changed(watching: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    small, watcher = watching
    small.solve("length", "    return 5\n")
    tasks = watcher.changed([small.root / STUB])
    assert [task.name for task in tasks] == ["length"]
    result = watcher.check(tasks)
    assert result.outcomes == {"mini.length": "failed"}
    screen = Screen(watcher, clears=False)
    screen.show(result)
    out = capsys.readouterr().out
    assert "the end minus the start" in out
    assert "lab hint mini.length" in out
    assert screen.focus.id == "mini.length"
    screen.hint()
    assert "What is left" in capsys.readouterr().out
    small.solve("length", RIGHT_LENGTH)
    screen.show(watcher.check(watcher.changed([small.root / STUB])))
    out = capsys.readouterr().out
    assert "2 of 9 points" in out
    assert "Next: mini.total" in out
    assert watcher.changed([small.root / STUB]) == []


def test_watch_says_why_something_is_not_run(
    watching: tuple, capsys: pytest.CaptureFixture[str]
) -> None:
    _, watcher = watching
    screen = Screen(watcher, clears=False)
    why = "mini.mini_cu needs torch, which this machine lacks: uv sync --inexact --group frameworks"
    name = "mini.mini_cu"
    screen.show(Recheck({name: "not run"}, {name: [("a_check", why)]}, {name: (0, 1)}))
    assert why in " ".join(capsys.readouterr().out.split())
    assert screen.focus.id == "mini.length", "the next step is one that runs here"


def test_watch_keeps_verdicts_that_a_change_cannot_alter(watching: tuple) -> None:
    small, watcher = watching
    small.solve("length", RIGHT_LENGTH)
    small.solve("total", RIGHT_TOTAL)
    file = small.root / STUB
    watcher.check([*watcher.changed([file]), *watcher.take_pending()])
    assert watcher.verdicts["mini.total"].outcome == "passed"
    # total uses length: it waits; length does not use total: its verdict is kept.
    small.write(STUB, small.read(STUB).replace("end - start", "start - end"))
    assert [task.name for task in watcher.changed([file])] == ["length"]
    assert [task.name for task in watcher.take_pending()] == ["total"]
    small.write(STUB, small.read(STUB).replace("start - end", "end - start"))
    watcher.check([*watcher.changed([file]), *watcher.take_pending()])
    small.write(STUB, small.read(STUB).replace("sum(", "len("))
    assert [task.name for task in watcher.changed([file])] == ["total"]
    assert progress.verdicts(small.course)["mini.length"].outcome == "passed"


def test_watch_of_a_file_that_does_not_parse_for_a_while(watching: tuple) -> None:
    small, watcher = watching
    file = small.root / STUB
    small.solve("length", RIGHT_LENGTH)
    small.solve("total", RIGHT_TOTAL)
    watcher.check([*watcher.changed([file]), *watcher.take_pending()])
    good = small.read(STUB)
    small.write(STUB, good.replace("end - start", "end -"))
    result = watcher.check(watcher.changed([file]))
    assert result.outcomes == {"mini.length": "failed"}
    assert "syntax error" in result.messages["mini.length"][0][1]
    assert watcher.take_pending() == []
    small.write(STUB, good)
    assert watcher.check(watcher.changed([file])).outcomes == {"mini.length": "passed"}
    assert progress.verdicts(small.course)["mini.total"].outcome == "passed"


def test_watch_survives_code_that_ends_the_process(watching: tuple) -> None:
    small, watcher = watching
    small.solve("length", "    import os\n    os._exit(3)\n")
    result = watcher.check(watcher.changed([small.root / STUB]))
    assert result.trouble
    small.solve("length", RIGHT_LENGTH)
    assert watcher.check(watcher.changed([small.root / STUB])).outcomes == {"mini.length": "passed"}


def test_watch_sees_a_save_and_keys(watching: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    small, watcher = watching
    events: queue.Queue = queue.Queue()
    stop = threading.Event()
    watched = threading.Thread(target=watch_files, args=(watcher, events, stop), daemon=True)
    watched.start()
    screen = Screen(watcher, clears=False)
    running = threading.Thread(target=run, args=(watcher, screen, events), daemon=True)
    running.start()
    try:
        small.solve("length", RIGHT_LENGTH)
        file = small.root / STUB
        for _ in range(300):  # the watcher may take a moment to begin: touch it until it has seen
            if progress.verdicts(small.course)["mini.length"].outcome == "passed":
                break
            os.utime(file)
            time.sleep(0.1)
        assert progress.verdicts(small.course)["mini.length"].outcome == "passed"
        for key in ("h", "n", "?", "q"):
            events.put(("key", key))
        running.join(30)
        assert not running.is_alive()
    finally:
        stop.set()
        watched.join(10)
    out = capsys.readouterr().out
    assert "Next: mini.total" in out
    assert "Which function do you have already?" in out
    assert "mini_cu" not in out  # needs what no machine has


def test_watch_refuses_unknown_ids(small: Lab) -> None:
    assert "did you mean mini" in one_line(small("watch", "minni"))


def test_watch_ends_quietly_when_nobody_reads(small: Lab) -> None:
    command = [sys.executable, "-m", "grading.runner.watch"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command, cwd=small.root, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
