"""What a person adds to verdicts: points of tasks that a person grades, and overrides, each from a CSV file.

Both lie in the output folder and are applied whenever reports are written, so they survive a regrade:

    by_hand.csv      a row a submission, a column a criterion and one for the comment; `grade sheet DIR` writes it
    overrides.csv    Student, Task, Points, Reason: what counts instead; Task is a task's id, or "total"
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from grading.gradebook.marks import TOTAL, HandMark, Override
from grading.gradebook.policy import HandTask, Policy
from grading.gradebook.roster import HandedInNothing, Person, entry_of
from grading.grader.intake.owners import identify, same_owner
from profiling_lab.course.manifest import Course
from profiling_lab.errors import LabError

SHEET, OVERRIDES = "by_hand.csv", "overrides.csv"
COLUMNS = ("Student", "Task", "Points", "Reason")


class HandError(LabError):
    """A table that a person filled in cannot be used; the message names file, line and what is allowed."""


@dataclass(frozen=True)
class ByHand:
    """All of it, by entry; overrides by task id or TOTAL below it. absent: totals of those without an entry, by line.

    nobodys: rows in which something is entered and that no submission's name matches, as the table names them.
    """

    marks: Mapping[str, tuple[HandMark, ...]] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, Override]] = field(default_factory=dict)
    absent: Mapping[int, Override] = field(default_factory=dict)
    nobodys: tuple[str, ...] = ()

    def of(self, entry: str, policy: Policy) -> tuple[HandMark, ...]:
        """The tasks that a person grades, of one student; not entered where nothing was."""
        return self.marks.get(entry) or tuple(HandMark(task) for task in policy.by_hand)


def read(
    out: Path, policy: Policy, course: Course, entries: Sequence[str], people: Sequence[Person] = ()
) -> ByHand:
    """What a person entered into the folder's two tables. Raises HandError."""
    placed, nobodys = _placed(_rows(out / SHEET), entries, people)
    marks = {
        entry: tuple(_hand_mark(where, row, task) for task in policy.by_hand)
        for entry, (where, row) in placed.items()
    }
    overrides: dict[str, dict[str, Override]] = {}
    absent: dict[int, Override] = {}
    known = {*course.tasks, *(task.id for task in policy.by_hand), TOTAL}
    for where, row in _rows(out / OVERRIDES, COLUMNS):
        line = 0
        try:
            entry = entry_of(row["Student"], entries, people)
        except HandedInNothing as error:
            entry, line = "", error.line
        except LabError as error:
            raise HandError(f"{where}: {error}") from None
        task = row["Task"]
        if task not in known:
            raise HandError(
                f"{where}: {task!r} is no task; write its id, as ex_30.busy_time, or total"
            )
        points = _points(where, "Points", row["Points"], _full(task, policy, course))
        if points is None or not row["Reason"]:
            raise HandError(
                f"{where}: an override needs points and a reason, which the student reads"
            )
        if line and task != TOTAL:
            raise HandError(f"{where}: {row['Student']} handed nothing in; override the total")
        if line:
            absent[line] = Override(points, row["Reason"])
        else:
            overrides.setdefault(entry, {})[task] = Override(points, row["Reason"])
    return ByHand(marks, overrides, absent, tuple(row["Submission"] for row in nobodys))


def sheet(
    out: Path, policy: Policy, names: Mapping[str, str], people: Sequence[Person] = ()
) -> str:
    """by_hand.csv: a row an entry (names: by entry) with what was entered already, then rows of no entry.

    It begins with a byte order mark, without which Excel spoils every name that is not English.
    """
    placed, nobodys = _placed(_rows(out / SHEET), list(names), people)
    kept = {entry: row for entry, (_, row) in placed.items()}
    kept |= {row["Submission"]: row for row in nobodys}
    names = {**names, **{row["Submission"]: row.get("Student", "") for row in nobodys}}
    header = ["Submission", "Student"]
    for task in policy.by_hand:
        header += [f"{task.id}: {name} (of {policy.show(p)})" for name, p in task.criteria.items()]
        header.append(f"{task.id}: comment")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for entry, name in names.items():
        had = kept.get(entry, {})
        writer.writerow([entry, name, *(had.get(_key(column), "") for column in header[2:])])
    return f"\ufeff{text.getvalue()}"


_Placed = dict[str, tuple[str, dict[str, str]]]


def _placed(
    rows: Sequence[tuple[str, dict[str, str]]], entries: Sequence[str], people: Sequence[Person]
) -> tuple[_Placed, list[dict[str, str]]]:
    """The table's rows by the entry that they are of, and those of none in which something is entered.

    A student who hands in again through Canvas, or whose entry was renamed, has an entry of another name.
    """
    placed = {
        row["Submission"]: (where, row) for where, row in rows if row["Submission"] in entries
    }
    nobodys = []
    for where, row in rows:
        if row["Submission"] in entries or not any(list(row.values())[2:]):
            continue
        entry = _renamed(row["Submission"], entries, people)
        if entry and entry not in placed:
            placed[entry] = (where, row)
        else:
            nobodys.append(row)
    return placed, nobodys


def _renamed(was: str, entries: Sequence[str], people: Sequence[Person]) -> str:
    """The entry that a student has now; "" if that is not certain."""
    said = identify(was)
    same = [entry for entry in entries if said.number and same_owner(identify(entry), said)]
    if len(same) == 1:
        return same[0]
    try:
        return entry_of(was, entries, people)
    except LabError:
        return ""


def _hand_mark(where: str, row: Mapping[str, str], task: HandTask) -> HandMark:
    points = {}
    for name, full in task.criteria.items():
        column = f"{task.id}: {name}"
        points[name] = _points(where, column, row.get(column, ""), full)
    return HandMark(task, points, row.get(f"{task.id}: comment", ""))


def _full(task: str, policy: Policy, course: Course) -> Fraction | None:
    if task == TOTAL:
        return None
    for one in policy.by_hand:
        if one.id == task:
            return one.possible
    found = course.task(task)
    return policy.weight(course.exercise(found.exercise), found)


def _points(where: str, column: str, text: str, full: Fraction | None) -> Fraction | None:
    if not text:
        return None
    try:
        points = Fraction(text.replace(",", "."))
    except (ValueError, ZeroDivisionError):
        raise HandError(f"{where}: {column} is {text!r}, not a number") from None
    if points < 0 or (full is not None and points > full):
        most = f" to {float(full):g}" if full is not None else " or more"
        raise HandError(f"{where}: {column} is {text}; allowed: 0{most}")
    return points


def _key(column: str) -> str:
    """A column's name without its full points, which a policy may change."""
    return column.partition(" (of ")[0].strip()


def _rows(file: Path, needed: Sequence[str] = ("Submission",)) -> list[tuple[str, dict[str, str]]]:
    """The rows of a table, each with its place; none if there is no such file."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise HandError(f"{file}: cannot be read ({error}); save it as CSV UTF-8") from None
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header: list[str] = []
    out = []
    for row in reader:
        if not any(cell.strip() for cell in row):
            continue
        if not header:
            header = [_key(cell) for cell in row]
            if missing := [name for name in needed if name not in header]:
                raise HandError(f"{file}, line 1: the column {missing[0]} is missing")
            continue
        cells = [cell.strip() for cell in row] + [""] * (len(header) - len(row))
        place = f"{file}, line {reader.line_num}"
        out.append((place, dict(zip(header, cells, strict=False))))
    return out
