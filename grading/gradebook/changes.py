"""Whose points a run changed, and why: what the last run reported is held against what this one does."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from grading.gradebook.gradebook import harmless
from grading.gradebook.marks import TOTAL
from grading.grader.intake.owners import identify, same_owner

FILE = "changes.csv"
MOST_TASKS = 4  # of one student in a line; changes.csv has them all
HEADER = ("When", "Student", "Submission", "Task", "Before", "After", "Why")


@dataclass(frozen=True)
class Change:
    """Points of one task, or the sum, of one student; "" where there are none yet."""

    when: str
    student: str
    entry: str
    task: str
    before: str
    after: str
    why: str


def found(before: Mapping[str, Any], after: Mapping[str, Any], when: str) -> Iterator[Change]:
    """What changed between two reports, each {"students", "checks", "environment", "policy"}.

    Of a student the changed tasks, then the sum. Students who were not there before have no change.
    """
    gone = {
        entry: then
        for entry, then in before.get("students", {}).items()
        if entry not in after.get("students", {})
    }
    for entry, now in sorted(after.get("students", {}).items()):
        then = before.get("students", {}).get(entry) or _under_another_name(entry, now, gone)
        if then is None:
            continue
        whys = []
        tasks = {**then.get("tasks", {}), **now.get("tasks", {})}
        for task in tasks:
            points = then.get("tasks", {}).get(task, ""), now.get("tasks", {}).get(task, "")
            if points[0] != points[1]:
                why = _why(task, then, now, before, after)
                whys.append(why)
                yield Change(when, now["name"], entry, task, *points, why)
        if then["points"] != now["points"]:
            why = _override(TOTAL, then, now) or "; ".join(dict.fromkeys(whys))
            if not why and before.get("policy") != after.get("policy"):
                why = "the policy changed"
            why = why or "its date of hand-in, or the class list, changed"
            yield Change(when, now["name"], entry, TOTAL, then["points"], now["points"], why)


def _under_another_name(
    entry: str, now: Mapping[str, Any], gone: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """What was reported of a student whose entry had another name, or who had handed nothing in; None if not certain."""
    said = identify(entry)
    same = [then for was, then in gone.items() if same_owner(identify(was), said)]
    same = same or [
        then
        for was, then in gone.items()
        if then["name"] == now["name"] and not (said.number and identify(was).number)
    ]
    return same[0] if len(same) == 1 else None


def _why(
    task: str,
    then: Mapping[str, Any],
    now: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> str:
    exercise = task.partition(".")[0]
    if said := _override(task, then, now):
        return said
    if "." not in task:
        return "entered by a person"
    had = then.get("handed_in", {})
    if exercise in had and had[exercise] != now.get("handed_in", {}).get(exercise):
        return "handed in anew"
    if task not in then.get("tasks", {}):
        return "judged now"
    if before.get("checks", {}).get(exercise) != after.get("checks", {}).get(exercise):
        return "its checks changed"
    if before.get("environment") != after.get("environment"):
        return "the grader's machine changed"
    if before.get("policy") != after.get("policy"):
        return "the policy changed"
    return "judged again"


def _override(task: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    had, has = then.get("overrides", {}).get(task), now.get("overrides", {}).get(task)
    if has is not None:
        return f"override: {has}"
    return "its override was taken away" if had is not None else ""


def in_words(changes: Iterable[Change]) -> list[str]:
    """A line a student: the sum, the first tasks that changed, and why."""
    lines = []
    for student, group in itertools.groupby(changes, key=lambda one: (one.entry, one.student)):
        every = sorted(group, key=lambda one: one.task != TOTAL)
        points = [
            f"{one.task} {one.before or 'none'} → {one.after or 'none'}"
            for one in every[:MOST_TASKS]
        ]
        more = [f"{len(every) - MOST_TASKS} more tasks"] if len(every) > MOST_TASKS else []
        whys = "; ".join(dict.fromkeys(one.why for one in every if one.task != TOTAL))
        lines.append(f"{student[1]}: {', '.join(points + more)} ({whys or every[0].why})")
    return lines


def append(out: Path, changes: Iterable[Change]) -> None:
    """Add changes to changes.csv, which no run ever shortens. Raises OSError."""
    rows = [[harmless(cell) for cell in astuple(change)] for change in changes]
    if not rows:
        return
    new = not (out / FILE).exists()
    with (out / FILE).open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(HEADER)
        writer.writerows(rows)
