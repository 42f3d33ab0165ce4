"""`lab dev`."""

from __future__ import annotations

import pytest

from profiling_lab.cli import dev
from profiling_lab.cli.proving import own_words
from profiling_lab.course import mistakes
from tests.harness.cli.small_course import RIGHT_LENGTH, STUB, Lab, one_line


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


def test_dev_check_names_what_brings_what_was_not_run(
    small: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "Not run: 5 tests, for want of yaml\n  uv sync --inexact --group authors\n"
    ran = {"page": [("test_page", 0.1, "")]}, f"Not proved: …\n{words}58 passed", 1
    monkeypatch.setattr(dev, "parts", lambda *_: [])
    monkeypatch.setattr(dev, "run_proof", lambda *_: ran)
    result = small("dev", "check", "mini")
    assert result.exit_code == 1 and "  uv sync --inexact --group authors\n" in result.output
    assert "what was not run proves nothing" in result.output


def test_dev_alone_shows_its_help(small: Lab) -> None:
    result = small("dev")
    assert result.exit_code == 2 and "\nCommands:\n" in result.output
