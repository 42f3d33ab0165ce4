"""Results that are drawn, and batches that a fake judge grades."""

from __future__ import annotations

from pathlib import Path

from grading.grader.batches import batch, reports
from grading.grader.intake.submissions import Submission
from grading.runner.results import Key, Result
from profiling_lab.course.manifest import Course
from profiling_lab.mine.functions import load_file

fake = load_file(Path(__file__).parents[1] / "fake_judge.py", "fake_judge")
EXERCISES = ["ex_31", "nsys_ex02"]
KEY = Key("a", "b", "c", 1)


def drawn(course: Course, student: str = "ada", key: Key = KEY) -> Result:
    submission = Submission(student, Path(), "")
    return fake.drawn(submission, course.exercise("nsys_ex02"), key)


def grade(course: Course, source: Path, out: Path, **more: object) -> reports.Summary:
    options = batch.Options(source, out, exercises=tuple(EXERCISES), **{"jobs": 2, **more})
    return batch.grade(course, options, engine_of=fake.fake_engine)
