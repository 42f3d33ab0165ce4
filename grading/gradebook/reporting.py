"""Writes everything that people and other systems read of a batch, from its results.

    gradebook.csv, gradebook_canvas.csv, gradebook_moodle.csv, unmatched.csv
    class.html, class.md
    feedback/STUDENT.html and .md      gradescope/STUDENT.json      junit/STUDENT.xml

Results are read once, in any order, and kept on disk in between: memory does not grow with their
messages. The files depend on nothing but the arguments, so the same results give the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import msgspec

from grading.gradebook import (
    by_hand,
    class_page,
    exports,
    feedback,
    feedback_pages,
    gradebook,
    returned,
)
from grading.gradebook.by_hand import ByHand
from grading.gradebook.look import Look, looks, why_left
from grading.gradebook.marks import TOTAL, Mark, Override, Sheet, Survey, mark_student
from grading.gradebook.policy import Policy
from grading.gradebook.roster import Joined, Person, Unmatched, join, names_of
from grading.gradebook.similarity import Match
from grading.gradebook.student_view import StudentView
from grading.gradebook.untrusted_text import clean, encodable_data
from grading.gradebook.where_to_read import Guide
from grading.grader.intake.owners import identify
from grading.grader.intake.submissions import Submission
from grading.runner.results import Result
from profiling_lab.atomic_files import replaced
from profiling_lab.course.manifest import Course

FOLDERS = {"feedback": (".html", ".md"), "gradescope": (".json",), "junit": (".xml",)}
LONGEST_NAME_BYTES = 120
# What Windows keeps for devices.
RESERVED = {"con", "prn", "aux", "nul"} | {f"{d}{n}" for d in ("com", "lpt") for n in range(10)}


def write_all(
    course: Course,
    results: Iterable[Result],
    out: Path,
    *,
    policy: Policy | None = None,
    roster: Sequence[Person] | None = None,
    matches: Iterable[Match] = (),
    submissions: Iterable[Submission] = (),
    exercises: Iterable[str] | None = None,
) -> Written:
    """Write all reports into `out`.

    results: of several for one exercise of a student the last counts. matches: of grading.gradebook.similarity.
    exercises: ids to report on; by default those that occur in the results, or all if none do.
    Reports of students who are no longer there are removed. Raises OSError if writing fails; a report is
    replaced whole or not at all.
    """
    policy = policy or Policy()
    matches = list(matches)
    handed_in = {one.student: one for one in submissions}
    out.mkdir(parents=True, exist_ok=True)
    survey = Survey()
    with tempfile.TemporaryFile(dir=out) as file:
        spool = _Spool(file)
        for result in results:
            survey.add(result)
            spool.add(result)
        wanted = set(exercises) if exercises is not None else survey.exercises
        chosen = tuple(e for e in course.exercises if not wanted or e.id in wanted)
        sheet = Sheet(chosen, policy, survey)
        entries = sorted({*spool.students(), *handed_in})
        joined = join(roster, entries) if roster else Joined()
        people = roster or ()
        hand = by_hand.read(out, policy, course, entries, people)
        writer = _Writer(course, sheet, out, entries, joined, people, handed_in, matches, hand)
        for entry in entries:
            writer.student(entry, spool.load(entry))
    needs_look = writer.whole_class(roster)
    writer.remove_old()
    return Written(sorted(writer.written), needs_look, writer.students())


@dataclass(frozen=True)
class Written:
    """What was written. needs_look: what the instructor has to do. students: by entry, name, points and note."""

    files: list[Path]
    needs_look: list[Look]
    students: dict[str, dict[str, Any]]


MARKED_LATE = (
    "Canvas marks it late; how late is not known, so nothing is taken off. A column submitted_at in the class "
    "list says when it was handed in."
)


def handed_in_at(submission: Submission | None, person: Person | None) -> float | None:
    """Seconds since 1970 of the hand-in: from the class list, else of a clone's last commit, else None."""
    if person is not None and person.submitted_at is not None:
        return person.submitted_at
    return submission.submitted_at if submission else None


class _Spool:
    """Results on disk, found again by student."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.places: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)

    def add(self, result: Result) -> None:
        try:
            line = msgspec.msgpack.encode(result)
        except UnicodeEncodeError:  # a file's name may be any bytes
            line = msgspec.msgpack.encode(encodable_data(msgspec.to_builtins(result)))
        self.places[result.student][result.exercise] = (self.file.tell(), len(line))
        self.file.write(line)

    def students(self) -> Iterable[str]:
        return self.places.keys()

    def load(self, student: str) -> dict[str, Result]:
        out = {}
        for exercise, (start, length) in self.places.get(student, {}).items():
            self.file.seek(start)
            out[exercise] = msgspec.msgpack.decode(self.file.read(length), type=Result)
        self.file.seek(0, os.SEEK_END)
        return out


class _Writer:
    """Writes the files of a class, one student after another."""

    def __init__(
        self,
        course: Course,
        sheet: Sheet,
        out: Path,
        entries: Sequence[str],
        joined: Joined,
        people: Sequence[Person],
        submissions: Mapping[str, Submission],
        matches: Sequence[Match],
        hand: ByHand,
    ) -> None:
        self.course = course
        self.sheet = sheet
        self.out = out
        self.joined, self.people = joined, people
        self.submissions = submissions
        self.matches = matches
        self.hand = hand
        self.alike = Counter(name for match in matches for name in match.students)
        self.names = file_names(entries, {e: p.name for e, p in joined.by_entry.items()})
        self.guide = Guide(course)
        self.tally = class_page.Tally(sheet)
        self.rows: dict[str, gradebook.Row] = {}
        self.left: dict[str, str] = {}
        self.earned: dict[str, dict[str, str]] = {}
        self.absent: list[gradebook.Row] = []
        self.written: list[Path] = []

    def student(self, entry: str, found: Mapping[str, Result]) -> None:
        """Write one student's pages and note the row."""
        person = self.joined.by_entry.get(entry)
        submission = self.submissions.get(entry)
        policy = self.sheet.policy
        known_as = (entry, identify(entry).name, *(person.names if person else ()))
        submitted_at = handed_in_at(submission, person)
        late = policy.lateness(submitted_at, known_as)
        if submitted_at is None and identify(entry).late:
            late = replace(late, note=MARKED_LATE)
        mark = mark_student(
            entry,
            found,
            self.sheet,
            late,
            self.hand.of(entry, policy),
            self.hand.overrides.get(entry),
        )
        self.tally.add(mark)
        state, notes = _state(submission)
        refused = submission.error if submission else ""
        if mark.left and state == "graded":
            state = "left to grade"
        row = gradebook.row_of(mark, person, state, submitted_at)
        row.alike = self.alike.get(entry, 0)
        row.feedback = self.names[entry]
        row.refused_files = tuple(feedback.refused_files(mark)) if state == "graded" else ()
        self.left[entry] = why_left(mark)
        self.rows[entry] = row
        name = names_of(person, self.people) if person else entry
        shown = feedback.view(
            self.course, self.guide, mark, policy, name=name, notes=notes, refused=refused
        )
        self._pages(entry, mark, shown)
        self.earned[entry] = {
            task.task.id: policy.show(task.earned)
            for exercise in mark.exercises
            for task in exercise.tasks
            if task.earned is not None and task.gradable
        } | {
            hand.task.id: policy.show(points)
            for hand in mark.by_hand
            if (points := mark.hand_points(hand)) is not None
        }

    def _pages(self, entry: str, mark: Mark, shown: StudentView) -> None:
        policy = self.sheet.policy
        file = self.names[entry]
        self.write(f"feedback/{file}.html", feedback_pages.html_page(shown))
        self.write(f"feedback/{file}.md", feedback_pages.markdown_page(shown))
        self.write(f"gradescope/{file}.json", exports.gradescope(mark, shown, policy))
        self.write(f"junit/{file}.xml", exports.junit(mark, shown, policy))

    def whole_class(self, roster: Sequence[Person] | None) -> list[Look]:
        """Write the gradebooks and the class page; returns what the instructor has to do."""
        rows, apart = self._rows(roster)
        found = looks(rows, apart, self.left, self.hand.nobodys)
        given_back = {f"{row.entry}\0{at}": row for at, row in enumerate(rows) if row.entry}
        folders = file_names(given_back, {key: row.name for key, row in given_back.items()})
        pages = [(folders[key], row) for key, row in given_back.items()]
        self.written += returned.write(self.out, pages, apart)
        self.write("gradebook.csv", gradebook.gradebook_csv(rows, self.sheet))
        self.write("gradebook_canvas.csv", gradebook.canvas_csv(self.course, rows, self.sheet))
        self.write("gradebook_moodle.csv", gradebook.moodle_csv(self.course, rows, self.sheet))
        if apart:
            self.write("unmatched.csv", gradebook.unmatched_csv(apart, self.sheet))
        else:
            (self.out / "unmatched.csv").unlink(missing_ok=True)
        shown = class_page.view(
            self.course,
            self.tally,
            rows,
            apart,
            self.matches,
            has_roster=bool(roster),
            needs_look=found,
        )
        self.write("class.html", class_page.html_page(shown))
        self.write("class.md", class_page.markdown_page(shown))
        return found

    def students(self) -> dict[str, dict[str, Any]]:
        """Name, points (of how many), what is to be said of them, points of each task: by entry.

        Whoever handed nothing in stands under what the class list knows of them.
        """
        show = self.sheet.policy.show
        absent = {
            f"nothing handed in: {row.person.address or row.person.name}": row
            for row in self.absent
            if row.person
        }
        return {
            entry: {
                "name": clean(row.name, 200),
                "points": "" if row.after is None else show(row.after),
                "of": show(row.out_of),
                "note": row.note,
                "tasks": self.earned.get(entry, {}),
                "overrides": {
                    task: one.reason for task, one in self._overrides(entry, row).items()
                },
            }
            for entry, row in (self.rows | absent).items()
        }

    def _overrides(self, entry: str, row: gradebook.Row) -> Mapping[str, Override]:
        if row.entry:
            return self.hand.overrides.get(entry, {})
        total = self.hand.absent.get(row.person.line) if row.person else None
        return {TOTAL: total} if total else {}

    def _rows(
        self, roster: Sequence[Person] | None
    ) -> tuple[list[gradebook.Row], list[tuple[gradebook.Row, Unmatched]]]:
        """The gradebook's rows in the roster's order, and those that stand apart from it."""
        if not roster:
            return [self.rows[entry] for entry in sorted(self.rows)], []
        rows = []
        apart = [(self.rows[why.entry], why) for why in self.joined.unmatched]
        teams: dict[str, list[str]] = defaultdict(list)
        for person in roster:
            if person.team:
                teams[person.team] += self.joined.entries.get(person.line, [])
        for person in roster:
            entries = self.joined.entries.get(person.line, [])
            if person.team:
                entries = teams[person.team]
            if not entries and self.joined.unmatched:
                rows.append(gradebook.unknown_row(person, self.sheet))
            elif not entries:
                rows.append(gradebook.empty_row(person, self.sheet))
            elif len(entries) == 1:
                row = self.rows[entries[0]]
                rows.append(row if row.person is person else replace(row, person=person))
            else:
                rows.append(gradebook.several_row(person, entries, self.sheet))
                why = f"{gradebook.SEVERAL} match {person.name}"
                apart += [(self.rows[entry], Unmatched(entry, why)) for entry in entries]
        for person, row in zip(roster, rows, strict=True):
            if override := self.hand.absent.get(person.line):
                row.after, row.left = override.points, []
                row.overridden = (TOTAL,)
                row.why = row.note = f"set by the instructor: {override.reason}"
        self.absent = [row for row in rows if not row.entry]
        return rows, sorted(apart, key=lambda pair: pair[1].entry)

    def write(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        target = self.out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with replaced(target) as draft:
            draft.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        self.written.append(target)

    def remove_old(self) -> None:
        """Remove the reports of students who are not part of the batch any more."""
        kept = set(self.written)
        for folder, suffixes in FOLDERS.items():
            place = self.out / folder
            for path in place.iterdir() if place.is_dir() else ():
                if path not in kept and path.suffix in suffixes and path.is_file():
                    path.unlink()
            if place.is_dir() and not any(place.iterdir()):
                shutil.rmtree(place, ignore_errors=True)


def _state(submission: Submission | None) -> tuple[str, list[str]]:
    """A submission's state for the gradebook, and what the student is told of it."""
    if submission is None:
        return "graded", []
    notes = []
    if submission.extra_count:
        files = (
            "one more file"
            if submission.extra_count == 1
            else f"{submission.extra_count} more files"
        )
        shown = ", ".join(clean(name, 80) for name in submission.extra[:5])
        notes.append(f"You handed in {files}, which are not part of the exercises: {shown}")
    return (f"{gradebook.REFUSED}: {submission.error}" if submission.error else "graded"), notes


def file_names(entries: Iterable[str], people: Mapping[str, str] | None = None) -> dict[str, str]:
    """A file's name for each entry, without suffix: safe on every system, and different.

    people: by entry the roster's name, which is taken instead. An entry that is safe as it is keeps its name; others get a part of their hash. Whatever would still
    share a name, or differ only in case (equal on some file systems), gets a longer part.
    """
    names: dict[str, str] = {}
    digits: dict[str, int] = {}
    for entry in entries:
        person = (people or {}).get(entry)
        names[entry] = re.sub("_+", "_", _plain(person)) if person else _plain(entry)
        digits[entry] = 0 if person or names[entry] == entry else 8
    while True:
        made = {entry: _with_hash(names[entry], entry, digits[entry]) for entry in names}
        common = Counter(name.casefold() for name in made.values())
        shared = [e for e, name in made.items() if common[name.casefold()] > 1 and digits[e] < 64]
        if not shared:
            return made
        for entry in shared:
            digits[entry] = 64 if digits[entry] else 8


def _with_hash(name: str, entry: str, digits: int) -> str:
    if not digits:
        return name
    digest = hashlib.sha256(entry.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name}-{digest[:digits]}"


def _plain(entry: str) -> str:
    text = unicodedata.normalize("NFC", entry)
    text = "".join(char if char.isalnum() or char in "._-@+" else "_" for char in text)
    text = text.encode("utf-8", "replace")[:LONGEST_NAME_BYTES].decode("utf-8", "ignore")
    text = text.strip(".") or "student"
    if text.startswith("-") or text.split(".")[0].casefold() in RESERVED:
        text = "_" + text
    return text
