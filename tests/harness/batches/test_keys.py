"""What a verdict depends on is in its key."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from grading.grader.batches import keys
from grading.grader.intake.submissions import Submission
from profiling_lab.course.manifest import Course
from tests.harness.batches.small_batches import EXERCISES, fake

pytestmark = pytest.mark.proof  # it is the grader's


def test_a_submission_s_hash_is_of_the_exercise_s_files(course: Course, tmp_path: Path) -> None:
    first, second = course.exercise("ex_31"), course.exercise("nsys_ex02")
    fake.write_class(tmp_path, course, ["ada"], EXERCISES)
    files = {str(stub): "submitted" for e in (first, second) for stub in e.stubs}
    ada = Submission("ada", tmp_path / "ada", "", files)
    before = [keys.submission_hash(ada, exercise) for exercise in (first, second)]
    renamed = replace(ada, student="ben")
    assert [keys.submission_hash(renamed, exercise) for exercise in (first, second)] == before
    (tmp_path / "ada" / first.stub).write_text("changed")
    assert keys.submission_hash(ada, first) != before[0]
    assert keys.submission_hash(ada, second) == before[1]
    refused = replace(ada, files=files | {str(second.stub): "refused: a link"})
    missing = replace(ada, files={})
    hashes = {keys.submission_hash(one, second) for one in (ada, refused, missing)}
    assert len(hashes) == 3


def test_what_judges_is_in_the_hash_of_checks(course: Course, tmp_path: Path) -> None:
    """A course of its own, in which one file after another changes."""
    stub = course.exercise("nsys_ex02").stub
    small = replace(course, root=tmp_path, exercises=(course.exercise("nsys_ex02"),))
    judging = [
        small.checks(stub),
        tmp_path / "grading" / "runner" / "stubs.py",
        tmp_path / "grading" / "checks" / "oracle.py",
        tmp_path / "profiling_lab" / "devices.toml",
        small.checks(stub).with_name("probes") / "beside.py",
        small.checks(stub).parents[1] / "probes" / "of_several.py",
        tmp_path / "captures" / "one" / "provenance.json",
        tmp_path / stub.parent / "given.cu",
        tmp_path / "cases" / "captures" / "secret" / "kernels.csv",
    ]
    others = [
        tmp_path / "grading" / "grader" / "batches" / "store.py",
        tmp_path / "grading" / "runner" / "__pycache__" / "stubs.pyc",
        tmp_path / "captures" / "one" / "README.md",
        small.checks(stub).parents[1] / "another" / "probes" / "beside.py",
        tmp_path / stub,
        tmp_path / stub.parent / "README.md",
    ]
    for file in judging + others:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("before")

    def now() -> str:
        return keys.Checks(small, tmp_path / "cases").of(small.exercises[0])

    for file in others:
        before = now()
        file.write_text("after")
        assert now() == before, file
    for file in judging:
        before = now()
        file.write_text("after")
        assert now() != before, file
    assert keys.Checks(small).of(small.exercises[0]) != now()


def test_the_judge_uses_nothing_that_is_left_out_of_the_hash() -> None:
    code = (
        "import sys, grading.grader.judge, grading.runner.plugin, grading.checks.fixtures\n"
        "print(*[m.replace('.', '/') for m in sys.modules if m.startswith('grading.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert not set(done.stdout.split()) & keys.NOT_JUDGING
