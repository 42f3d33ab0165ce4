"""A judge without checks, for tests of batches: what it finds is in the submission's first line.

python tests/harness/fake_judge.py SUBMISSIONS --out DIR …    the command `grade` with this judge
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from grading import cli
from grading.gradebook.reporting import Written
from grading.grader.batches import batch, engines
from grading.grader.batches.engines import JudgeSpec, Unit
from grading.grader.intake.submissions import Submission
from grading.runner.results import Check, Key, Result, Task
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course, Exercise

OPENER = f"{Path(__file__).resolve()}:open_fake"


class FakeJudge:
    """Draws verdicts from submission and seed. A first line "# fake: WORD [ARGUMENT]" asks for something else.

    waits FILE: until FILE is there. fills FILE STOP: fills the disk with FILE if there is no STOP. raises, infrastructure: always. raises-once FILE, dies-once FILE: until FILE
    is there; dies ends the whole process.
    """

    def __init__(self, spec: JudgeSpec) -> None:
        self.spec = spec
        self.environments: list[Mapping[str, str] | None] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def grade(
        self,
        submission: Submission,
        exercise: Exercise,
        key: Key,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> Result:
        self.environments.append(environment)
        text = (submission.tree / exercise.stub).read_text(encoding="utf-8")
        first = text.partition("\n")[0]
        words = first.removeprefix("# fake: ").split() if first.startswith("# fake: ") else [""]
        while words[0] == "waits" and not os.path.exists(words[1]):
            time.sleep(0.01)
        if words[0] == "fills" and not os.path.exists(words[2]):
            _fill(words[1])
        if words[0] == "raises" or (words[0] == "raises-once" and _first_time(words[1])):
            raise RuntimeError("the fake judge was told to")
        if words[0] == "dies-once" and _first_time(words[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        if words[0] == "infrastructure":
            unit = Unit(submission, exercise, key)
            return engines.not_judged(unit, "the fake judge's disk is full")
        return drawn(submission, exercise, key)


def drawn(submission: Submission, exercise: Exercise, key: Key) -> Result:
    """A result that depends on submission and seed alone."""
    tasks = {}
    for task in exercise.tasks:
        draw = hashlib.sha256(f"{key.submission}{key.seed}{task.id}".encode()).digest()[0]
        outcome = ("passed", "failed", "error")[draw % 3]
        cause = "time-out" if outcome == "error" else ""
        checks = [Check("test_it", outcome, f"drawn {draw}" * (outcome != "passed"), cause)]
        earned = task.points if outcome == "passed" else 0
        tasks[task.id] = Task(outcome, task.points, earned, task.live, task.trust, cause, checks)
    files = {str(stub): "submitted" for stub in exercise.stubs}
    return Result(submission.student, exercise.id, key, tasks, files)


def _fill(file: str) -> None:
    with contextlib.suppress(OSError), open(file, "wb", buffering=0) as stream:
        while True:
            stream.write(bytes(512))


def _first_time(file: str) -> bool:
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def open_fake(spec: JudgeSpec) -> FakeJudge:
    """As `grading.grader.batches.engines.open_judge`."""
    return FakeJudge(spec)


def fake_engine(course: Course, options: batch.Options, seed: int) -> engines.Local:
    """As `grading.grader.batches.batch.make_engine`, with this judge and without long pauses."""
    spec = JudgeSpec(
        str(course.root), parallel=options.jobs, seed=seed, live=options.live, opener=OPENER
    )
    return Quick(spec, retries=options.retries, pauses_s=(0.01,))


class Quick(engines.Local):
    """The local engine without a look at the machine."""

    def environment(self) -> dict[str, Any]:
        return {"python": "a fake one", "sandbox": "none"}


def write_class(
    folder: Path, course: Course, students: list[str], exercises: list[str], **lines: str
) -> Path:
    """Submissions of some exercises' stubs; lines: the first line of a student's files."""
    for student in students:
        for name in exercises:
            for stub in course.exercise(name).stubs:
                file = folder / student / stub
                file.parent.mkdir(parents=True, exist_ok=True)
                comment = "# by" if stub.suffix == ".py" else "// by"
                first = lines.get(student, f"{comment} {student}")
                file.write_text(f"{first}\n", encoding="utf-8")
    return folder


@contextlib.contextmanager
def plain_reports() -> Iterator[None]:
    """Reports of one file, so that tests of batches say nothing about the others."""

    def write(self: Any, results: Any, out: Path, plan: Any, matches: Any) -> Written:
        file = out / "gradebook.csv"
        lines = [
            f"{r.student},{r.exercise},{name},{task.outcome},{task.earned},{r.infrastructure}\n"
            for r in results
            for name, task in r.tasks.items()
        ]
        file.write_text("".join(lines), encoding="utf-8")
        return Written([file], [], {})

    before, batch.Reports.write = batch.Reports.write, write
    try:
        yield
    finally:
        batch.Reports.write = before


if __name__ == "__main__":
    batch.make_engine = fake_engine
    batch.likeness = lambda plan, summary: []
    with plain_reports():
        os.chdir(manifest.find_root(Path(__file__).parent))
        cli.main(sys.argv[1:])
