"""Who is judged in what, under which keys: a batch's plan, kept beside its results."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grading.grader.batches import keys
from grading.grader.batches.engines import Unit, not_judged
from grading.grader.batches.output_folder import StoreError
from grading.grader.batches.store import Store
from grading.grader.intake.submissions import Submission
from grading.runner.results import Key, Result
from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.errors import LabError

if TYPE_CHECKING:
    pass


def choose(course: Course, wanted: Sequence[str]) -> list[Exercise]:
    """The exercises of ids or of folders of the course ("week07"), in the manifest's order.

    Raises UnknownExercise, naming what comes close.
    """
    if not wanted:
        return list(course.exercises)
    chosen: set[str] = set()
    for name in wanted:
        folder = name.strip("/").removeprefix("./")
        inside = [e.id for e in course.exercises if e.stub.is_relative_to(folder)]
        chosen.update(inside or [course.exercise(name).id])
    return [exercise for exercise in course.exercises if exercise.id in chosen]


@dataclass(frozen=True)
class Plan:
    """Who is judged in what, under which keys. submissions: sorted by student."""

    course: Course
    exercises: list[Exercise]
    submissions: list[Submission]
    hashes: dict[tuple[str, str], str]
    checks: dict[str, str]
    environment: str
    seed: int

    def units(self) -> Iterator[Unit]:
        """Every unit, a student's together, in the order of the manifest."""
        for submission in self.submissions:
            for exercise in self.exercises:
                yield Unit(submission, exercise, self.key(submission, exercise))

    def key(self, submission: Submission, exercise: Exercise) -> Key:
        """What the result of a unit depends on."""
        mine = self.hashes[submission.student, exercise.id]
        return Key(mine, self.checks[exercise.id], self.environment, self.seed)

    def rows(self) -> Iterator[dict[str, Any]]:
        """As plain data, a row a submission."""
        for submission in self.submissions:
            row = dataclasses.asdict(submission) | {"tree": ""}
            row["exercises"] = {e.id: self.hashes[submission.student, e.id] for e in self.exercises}
            yield row

    def facts(self) -> dict[str, Any]:
        """What all rows share, as plain data."""
        return {"environment": self.environment, "seed": self.seed, "checks": self.checks}


def make_plan(
    course: Course,
    exercises: list[Exercise],
    submissions: Iterable[Submission],
    *,
    environment: str,
    seed: int,
    cases: Path | None = None,
) -> Plan:
    """The plan of a batch. Raises LabError if two submissions have one student's name."""
    ordered = sorted(submissions, key=lambda submission: submission.student)
    counts = Counter(submission.student for submission in ordered)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise LabError(f"{', '.join(twice)}: handed in more than once; keep one of each")
    checks = keys.Checks(course, cases)
    return Plan(
        course,
        exercises,
        ordered,
        {(s.student, e.id): keys.submission_hash(s, e) for s in ordered for e in exercises},
        {exercise.id: checks.of(exercise) for exercise in exercises},
        environment,
        seed,
    )


def kept_plan(course: Course, store: Store) -> Plan:
    """The plan of the folder's last run; trees are gone. Raises StoreError if there is none."""
    facts = store.batch().get("keys", {})
    submissions, hashes = [], {}
    known = {exercise.id: exercise for exercise in course.exercises}
    for row in store.plan():
        mine = row.pop("exercises")
        row |= {"tree": Path(), "extra": tuple(row["extra"])}
        try:
            submission = Submission(**row)
        except TypeError:
            raise StoreError(
                f"{store.out}: was planned by another version of the course; run grade with the "
                "submissions again: what is graded stays graded"
            ) from None
        submissions.append(submission)
        hashes |= {(submission.student, exercise): value for exercise, value in mine.items()}
    chosen = [known[name] for name in known if name in facts.get("checks", {})]
    return Plan(
        course,
        chosen,
        submissions,
        hashes,
        facts.get("checks", {}),
        facts.get("environment", ""),
        facts.get("seed", 0),
    )


def results(plan: Plan, store: Store) -> Iterator[Result]:
    """The result of every unit of a plan, read from disk one at a time; sorted, whole.

    What has none yet comes as infrastructure, so that no report takes it for a zero.
    """
    for unit in plan.units():
        kept = store.get(unit.submission.student, unit.exercise.id, unit.key)
        if kept is None:
            kept = not_judged(unit, "not graded yet: run grade again, it goes on from there")
        yield kept


def what_changed(plan: Plan, environment: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
    """Why verdicts of the last run (its batch.json) do not hold any more, a sentence each."""
    checks = before.get("keys", {}).get("checks", {})
    new = [e.id for e in plan.exercises if checks.get(e.id, plan.checks[e.id]) != plan.checks[e.id]]
    if new:
        shown = ", ".join(new[:5]) + (f" and {len(new) - 5} more" if len(new) > 5 else "")
        yield f"since the last run the checks, or what they use, have changed: {shown}: judged anew"
    if before.get("environment", environment) != environment:
        said = keys.differences(before["environment"], environment, "then", "now")
        yield f"since the last run this machine has changed ({said}): all is judged anew"
