"""Verdicts of tasks, made of what the checks found."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grading.runner.printable import printable
from grading.runner.results import OUTCOMES, Check, Task
from profiling_lab.course import manifest

MOST_MESSAGE = 8_000


class Score:
    """What one run of pytest found. problem: why it is not whole. died: of CAUSES, how its process ended."""

    def __init__(self, tasks: dict[str, Any], problem: str = "", died: str = "") -> None:
        self.tasks = tasks
        self.problem = problem
        self.died = died

    @property
    def broken(self) -> str:
        """What a check said for which the sandbox failed; "" if it failed for none."""
        checks = [check for task in self.tasks.values() for check in task.get("checks", [])]
        return next((c["message"] for c in checks if c["outcome"] == "infrastructure"), "")


def without_folders(folders: Iterable[Path], message: str, here: Path) -> str:
    """A message with paths as from these folders on, the first that fits; here: where relative paths begin."""
    for folder in folders if os.sep in message else ():
        inside = folder != here and folder.is_relative_to(here)
        relative = [str(folder.relative_to(here))] if inside else []
        for path in (str(folder), os.path.realpath(folder), *relative):
            message = message.replace(f"{path}{os.sep}", "")
    return message


def check_of(check: dict[str, Any], *, hidden: bool) -> Check:
    outcome, cause = check["outcome"], check.get("cause", "")
    if outcome == "failed" and cause:
        outcome = "error"
    return Check(
        check["name"], outcome, printable(check["message"], MOST_MESSAGE, lines=True), cause, hidden
    )


def judged(task: manifest.Task, checks: list[Check]) -> Task:
    """A task's verdict: passed only if there are checks and all passed, else the gravest of them."""
    found = {check.outcome for check in checks}
    outcome = next((outcome for outcome in OUTCOMES if outcome in found), "infrastructure")
    cause = next((check.cause for check in checks if check.outcome == "error"), "")
    return verdict(task, outcome, cause if outcome == "error" else "", checks)


def of_unreadable(task: manifest.Task, cause: str, why: str) -> Task:
    return verdict(task, "error", cause, [Check("the file", "error", why, cause)])


def verdict(
    task: manifest.Task, outcome: str, cause: str = "", checks: list[Check] | None = None
) -> Task:
    earned = task.points if outcome == "passed" else 0
    return Task(outcome, task.points, earned, task.live, task.trust, cause, checks or [])
