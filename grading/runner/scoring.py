"""What can become of a check besides passing and failing, and how a session is scored."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from grading.runner.results import OUTCOMES
from profiling_lab import needs
from profiling_lab.atomic_files import replaced
from profiling_lab.course import doctor
from profiling_lab.course.manifest import Course, Exercise, Task

# A check ends as "passed", "failed", "todo", "blocked" or "not run". Only "passed" earns, and only
# "failed" is a failure.


class NotGraded(pytest.skip.Exception):
    """Ends a check without a verdict: its task is todo, blocked, or cannot be run here.

    cause: of a failure that was said before, as in `CheckResult`. missing: what is not here, where that is why.
    """

    def __init__(
        self, outcome: str, reason: str, cause: str = "", missing: Iterable[str] = ()
    ) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.cause = cause
        self.missing = frozenset(missing)


def require(*names: str) -> None:
    """End a test that needs what is not here, needs of the manifest or modules; it is "not run" then."""
    if lacking := doctor.absent(names):
        raise NotGraded("not run", needs.lacks("this test", lacking), missing=lacking)


def require_for(failure: str) -> None:
    """As `require`, of the modules of groups that a failure says it lacks."""
    require(*filter(needs.group, re.findall(r"No module named '(\w+)", failure)))


def installed(module: str) -> Any:
    """Import what a test needs and may not be here; the test is "not run" then."""
    require(module.partition(".")[0])
    return importlib.import_module(module)


@dataclass
class CheckResult:
    """One check as it ended.

    cause: of `grading.runner.results.CAUSES`, where a failure is not a wrong answer but a broken rule.
    """

    name: str
    outcome: str
    message: str = ""
    seconds: float = 0.0
    cause: str = ""


@dataclass
class TaskResult:
    """The checks of one task."""

    task: Task
    checks: list[CheckResult] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """Passed only if there are checks and all passed; else the gravest of what happened."""
        found = {check.outcome for check in self.checks}
        return next((outcome for outcome in OUTCOMES if outcome in found), "not run")

    @property
    def earned(self) -> int:
        """All points or none."""
        return self.task.points if self.outcome == "passed" else 0


@dataclass
class Score:
    """The verdict of a session on the exercises that it touched."""

    course: Course
    results: dict[str, TaskResult] = field(default_factory=dict)

    def add(self, task: Task, check: CheckResult) -> None:
        """Note the outcome of one check; a later report of the same check may only make it worse."""
        result = self.results.setdefault(task.id, TaskResult(task))
        for known in result.checks:
            if known.name == check.name:
                if known.outcome == "passed":
                    known.outcome, known.message = check.outcome, check.message
                    known.cause = check.cause
                return
        result.checks.append(check)

    def exercises(self) -> list[Exercise]:
        """The exercises that this session touched, in the order of the manifest."""
        touched = {result.task.exercise for result in self.results.values()}
        return [exercise for exercise in self.course.exercises if exercise.id in touched]

    def totals(
        self, exercise: Exercise | None = None, *, live: bool = False, further: bool = False
    ) -> dict[str, int]:
        """Points of the core, or of live or further tasks: earned, possible here, and not run.

        Of one exercise, or of all that was touched. A live task is live, whatever else it is.
        """
        out = {"earned": 0, "possible": 0, "not_run": 0}
        for result in self.results.values():
            if exercise is not None and result.task.exercise != exercise.id:
                continue
            if result.task.live != live or (result.task.further and not live) != further:
                continue
            if result.outcome == "not run":
                out["not_run"] += result.task.points
            else:
                out["possible"] += result.task.points
                out["earned"] += result.earned
        return out

    def next_task(self) -> Task | None:
        """The first task, in the order of the manifest, that has no full points yet."""
        for identifier, task in self.course.tasks.items():
            result = self.results.get(identifier)
            if result is not None and result.outcome in ("failed", "todo", "blocked"):
                return task
        return None

    def to_dict(self) -> dict:
        """The score as plain data: what `--score-json` writes."""
        return {
            "portable": self.totals(),
            "further": self.totals(further=True),
            "live": self.totals(live=True),
            "exercises": {
                exercise.id: {"title": exercise.title, **self.totals(exercise)}
                for exercise in self.exercises()
            },
            "tasks": {
                identifier: {
                    "outcome": result.outcome,
                    "points": result.task.points,
                    "earned": result.earned,
                    "live": result.task.live,
                    "trust": result.task.trust,
                    "checks": [
                        {"name": c.name, "outcome": c.outcome, "message": c.message}
                        | ({"cause": c.cause} if c.cause else {})
                        for c in result.checks
                    ],
                }
                for identifier, result in self.results.items()
            },
        }

    def write(self, file: Path, **more: Any) -> None:
        """Write the score as JSON, with more top-level entries, whole or not at all."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with replaced(file) as draft:
            draft.write_text(
                json.dumps({**self.to_dict(), **more}, indent=1) + "\n", encoding="utf-8"
            )
