"""`lab solution`, `lab submit`, `lab reset` and `lab update`."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from profiling_lab.course import manifest
from tests.harness.cli.small_course import (
    CUDA,
    MANIFEST,
    REFERENCE,
    RIGHT_LENGTH,
    RIGHT_TOTAL,
    STUB,
    Lab,
    one_line,
)


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
    assert "not begun" not in result.output
    first = (small.root / "ada.zip").read_bytes()
    assert small("submit", "--output", "ada.zip").exit_code == 0
    assert (small.root / "ada.zip").read_bytes() == first


def test_submit_names_what_is_not_begun_once(small: Lab) -> None:
    """Of a course of forty exercises a learner does one: the page is about this one."""
    result = small("submit")
    assert "holds\n  and 2 files of exercises that are not begun\n" in result.output
    assert "not begun: mini" in result.output and "still to do" not in result.output


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
