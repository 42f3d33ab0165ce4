"""The gradebook: a row a student, for people (`gradebook.csv`), Canvas and Moodle.

An empty cell is never a zero and never without its reason: "Note" says why nobody has judged it yet and what
to do, in the files for Canvas and Moodle too. Both take an empty cell as "no grade".

Canvas: "How do I import grades in the Gradebook?" (Instructor Guide) and lib/gradebook_importer.rb of
instructure/canvas-lms. Moodle: "Grade import" (docs.moodle.org) and grade/import/csv/classes/load_data.php.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from grading.gradebook.marks import NOTHING, Mark, Sheet
from grading.gradebook.policy import Export, Policy, utc
from grading.gradebook.roster import Joined, Person, RosterError, Unmatched, join, read_roster
from grading.gradebook.student_view import MEANING
from grading.gradebook.untrusted_text import clean
from profiling_lab.course.manifest import Course

__all__ = ["Joined", "Person", "RosterError", "Row", "Unmatched", "join", "read_roster"]

NO_SUBMISSION = "no submission"
SEVERAL = "several submissions"
REFUSED = "refused"
# Canvas leaves out every column whose header holds "Final Grade" (NON_ASSIGNMENT_COLUMN_HEADERS).
CANVAS_NOTE = "Final Grade note"
# A spreadsheet computes what begins so (OWASP, "CSV Injection"); the wide forms count in some locales.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


@dataclass
class Row:
    """A student's row, light enough to keep for a whole class.

    person: of the roster, None if there is none or nobody matches. cells: by exercise and by task id,
    what was earned, None while it is left to grade and for tasks that this batch cannot judge. refused_files:
    with the reason. why: points are missing, in words for the student; note: and what the instructor is to do about it.
    """

    entry: str
    person: Person | None
    state: str
    submitted: str = ""
    late_days: int = 0
    late_taken_pct: Fraction = NOTHING
    after: Fraction | None = NOTHING
    before: Fraction | None = NOTHING
    out_of: Fraction = NOTHING
    live: Fraction | None = None
    live_possible: Fraction = NOTHING
    further: Fraction | None = None
    further_possible: Fraction = NOTHING
    claims: Fraction = NOTHING
    counts: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    dropped: tuple[str, ...] = ()
    alike: int = 0
    cells: dict[str, Fraction | None] = field(default_factory=dict)
    factor: Fraction = Fraction(1)
    feedback: str = ""
    refused_files: tuple[str, ...] = ()
    by_hand_left: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
    why: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        return self.person.name if self.person else self.entry


def row_of(mark: Mark, person: Person | None, state: str, submitted_at: float | None) -> Row:
    """The row of a student who handed something in."""
    cells: dict[str, Fraction | None] = {}
    for exercise in mark.exercises:
        cells[exercise.exercise.id] = exercise.earned
        for task in exercise.tasks:
            cells[task.task.id] = task.earned
    for hand in mark.by_hand:
        cells[hand.task.id] = mark.hand_points(hand)
    return Row(
        entry=mark.student,
        person=person,
        state=state,
        submitted=utc(submitted_at),
        late_days=mark.late.days,
        late_taken_pct=(1 - mark.late.factor) * 100,
        after=mark.after,
        before=mark.before,
        out_of=mark.out_of,
        live=mark.live_earned if mark.live_possible else None,
        live_possible=mark.live_possible,
        further=mark.further_earned if mark.further_possible else None,
        further_possible=mark.further_possible,
        claims=mark.claims,
        counts=dict(mark.counts),
        left=mark.left,
        dropped=mark.dropped,
        cells=cells,
        factor=mark.late.factor,
        by_hand_left=tuple(h.task.id for h in mark.by_hand if h.task.id in mark.left),
        overridden=tuple(mark.overrides),
    )


def empty_row(person: Person, sheet: Sheet) -> Row:
    """The row of a student of the roster who handed nothing in: zero, and why."""
    cells: dict[str, Fraction | None] = {exercise.id: NOTHING for exercise in sheet.exercises}
    for exercise in sheet.exercises:
        cells |= {t.id: NOTHING for t in exercise.tasks if sheet.survey.gradable(t)}
    cells |= {task.id: NOTHING for task in sheet.policy.by_hand}
    return Row("", person, NO_SUBMISSION, out_of=sheet.full, cells=cells)


def unknown_row(person: Person, sheet: Sheet) -> Row:
    """The row of a student without a submission while there are some that nobody is known to have made."""
    return Row("", person, NO_SUBMISSION, after=None, before=None, out_of=sheet.full, left=["all"])


def several_row(person: Person, entries: Sequence[str], sheet: Sheet) -> Row:
    """The row of a student whom several entries match: no points until a person has chosen."""
    state = f"{SEVERAL}: {'; '.join(entries)}"
    return Row("", person, state, after=None, before=None, out_of=sheet.full, left=["all"])


# -- CSV ---------------------------------------------------------------------------------------------


def harmless(text: str) -> str:
    """Text for a cell: one line, and never a formula."""
    cell = clean(text, 500)
    return "'" + cell if cell.startswith(FORMULA) else cell


def _csv(rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def gradebook_csv(rows: Iterable[Row], sheet: Sheet) -> str:
    """gradebook.csv: identity, totals, counts, then every exercise, then every task."""
    return _csv(_gradebook(rows, sheet))


def unmatched_csv(rows: Sequence[tuple[Row, Unmatched]], sheet: Sheet) -> str:
    """unmatched.csv: the same for submissions that no row, or several, of the roster match."""
    lines = _gradebook([row for row, _ in rows], sheet)
    out = [["Why", "Nearest in the roster", *next(lines)]]
    for (_, why), line in zip(rows, lines, strict=True):
        out.append([harmless(why.why), harmless("; ".join(why.nearest)), *line])
    return _csv(out)


def _gradebook(rows: Iterable[Row], sheet: Sheet) -> Iterator[list[str]]:
    policy = sheet.policy
    outcomes = [outcome for outcome in MEANING if outcome != "not graded"]
    exercises = sheet.exercises
    tasks = [task for exercise in exercises for task in exercise.tasks]
    yield [
        *("Student", "ID", "Email", "Section", "Submission", "State", "Left to grade", "Note"),
        *("Total", "Out of", "Total before late rules", "Submitted", "Days late", "Late rule %"),
        *("Live", "Live out of", "Further", "Further out of", "Claims", "Likeness flags"),
        *("Dropped", "Overridden"),
        *(outcome.capitalize() + " tasks" for outcome in outcomes),
        *(f"{t.id} (of {policy.show(t.possible)})" for t in policy.by_hand),
        *(f"{e.id} (of {policy.show(sheet.possible(e))})" for e in exercises),
        *(f"{t.id} (of {policy.show(sheet.weights[t.id])})" for t in tasks),
    ]
    for row in rows:
        person = row.person
        yield [
            harmless(row.name),
            harmless((person.id or person.sis_id or person.canvas_id) if person else ""),
            harmless(person.address if person else ""),
            harmless(person.section if person else ""),
            harmless(row.entry),
            harmless(row.state),
            " ".join(row.left),
            harmless(row.note),
            *(_cell(value, policy) for value in (row.after, row.out_of, row.before)),
            row.submitted,
            str(row.late_days or ""),
            _cell(row.late_taken_pct, policy) if row.late_days else "",
            _cell(row.live, policy),
            _cell(row.live_possible, policy) if row.live_possible else "",
            _cell(row.further, policy),
            _cell(row.further_possible, policy) if row.further_possible else "",
            _cell(row.claims, policy),
            str(row.alike or ""),
            " ".join(row.dropped),
            " ".join(row.overridden),
            *(str(row.counts.get(outcome, 0)) for outcome in outcomes),
            *(_cell(row.cells.get(t.id), policy) for t in policy.by_hand),
            *(_cell(row.cells.get(e.id), policy) for e in exercises),
            *(_cell(row.cells.get(t.id), policy) for t in tasks),
        ]


def _cell(value: Fraction | None, policy: Policy) -> str:
    return "" if value is None else policy.show(value)


def canvas_csv(course: Course, rows: Iterable[Row], sheet: Sheet) -> str:
    """gradebook_canvas.csv: Canvas's own columns, "Points Possible" in the second row.

    Canvas finds a student by its ID, then SIS User ID, SIS Login ID, name, and an assignment by the
    number in parentheses, then by its title; one that it does not know it offers to create.
    """
    policy = sheet.policy
    columns = _columns(course, policy.canvas, sheet)
    out = [
        [
            *("Student", "ID", "SIS User ID", "SIS Login ID", "Section"),
            *(harmless(header) for header, _, _ in columns),
            CANVAS_NOTE,
        ],
        ["    Points Possible", "", "", "", "", *(policy.show(p) for _, _, p in columns), ""],
    ]
    for row in rows:
        person = row.person or Person(row.entry)
        out.append(
            [
                harmless(person.name),
                harmless(person.canvas_id),
                harmless(person.sis_id or person.id),
                harmless(person.login or person.address),
                harmless(person.section),
                *(_cell(_value(row, key), policy) for _, key, _ in columns),
                harmless(row.note),
            ]
        )
    return _csv(out)


def moodle_csv(course: Course, rows: Iterable[Row], sheet: Sheet) -> str:
    """gradebook_moodle.csv: to be mapped by "Email address" or "ID number"; grades with feedback.

    Moodle aborts the import at a grade above 100 (unless the site allows more), so grades are on the
    scale `moodle.out_of`; a feedback column is to be mapped together with its grade column.
    """
    policy = sheet.policy
    columns = _columns(course, policy.moodle, sheet)
    scale = policy.moodle.out_of or Fraction(100)
    header = ["First name", "Last name", "ID number", "Email address"]
    for name, _, _ in columns:
        header += [harmless(name), harmless(f"{name} (feedback)")]
    out = [header]
    for row in rows:
        person = row.person or Person(row.entry)
        first, last = _first_last(person)
        line = [first, last, person.id or person.sis_id, person.address]
        for _, key, possible in columns:
            value = _value(row, key)
            line += [
                ""
                if value is None
                else policy.show(value * scale / possible if possible else NOTHING),
                _moodle_words(row, value, possible, policy),
            ]
        out.append([harmless(cell) for cell in line])
    return _csv(out)


def _moodle_words(row: Row, value: Fraction | None, possible: Fraction, policy: Policy) -> str:
    if value is None:
        return f"no points yet: {row.why}"
    words = f"{policy.show(value)} of {policy.show(possible)} points"
    if row.state == NO_SUBMISSION:
        return f"{words}: no submission{f'; {row.why}' if row.why else ''}"
    if row.late_days:
        late = f"{row.late_days} {'day' if row.late_days == 1 else 'days'} late"
        words += f"; {late}, {policy.show(row.late_taken_pct)} % taken off"
    return f"{words}; {row.why}" if row.why else words


def _columns(course: Course, export: Export, sheet: Sheet) -> list[tuple[str, str, Fraction]]:
    """Header, key ("" for the total) and full points of each column."""
    columns = [
        (export.exercises[exercise.id], exercise.id, sheet.possible(exercise))
        for exercise in sheet.exercises
        if exercise.id in export.exercises
    ]
    if export.total or not columns:
        columns.append((export.total or course.title, "", sheet.full))
    return columns


def _value(row: Row, key: str) -> Fraction | None:
    """A column's points after late rules; None while something of them is left to grade."""
    value = row.after if not key else row.cells.get(key)
    return value * row.factor if key and value is not None else value


def _first_last(person: Person) -> tuple[str, str]:
    if person.first or person.last:
        return person.first, person.last
    if "," in person.name:
        last, _, first = person.name.partition(",")
        return first.strip(), last.strip()
    first, _, last = person.name.rpartition(" ")
    return (first, last) if first else (last, "")
