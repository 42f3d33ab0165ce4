"""What an instructor reads of a whole class: distribution, what failed and how, what needs a look.

Counts are kept while students stream by; of messages only normalised first lines, a bounded number a task.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from grading.gradebook.feedback import CANNOT, OF_FILES, cause_words, parts
from grading.gradebook.feedback_pages import environment
from grading.gradebook.gradebook import NO_SUBMISSION, SEVERAL, Row
from grading.gradebook.look import Look
from grading.gradebook.marks import Mark, Sheet
from grading.gradebook.roster import Unmatched
from grading.gradebook.similarity import Match
from grading.gradebook.student_view import MEANING
from grading.gradebook.untrusted_text import clean, clean_lines, encodable, inline
from profiling_lab.course.manifest import Course

ANSWERS_SHOWN = 5
MOST_GROUPS = 2000  # of different messages kept a task
FUNCTIONS_SHOWN = 8  # of those that the same students share
BINS = 10
HIDDEN_ANSWER = "a hidden check failed"

_PATH = re.compile(r"(?:[A-Za-z]:\\|\\\\|(?<![\w.])~?/)[^\s'\",:;)\]}]+(?::\d+)*")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_NUMBER = re.compile(r"(?<![\w#])[-+]?\d(?:[\d_,]*\d)?(?:\.\d+)?(?:[eE][-+]?\d+)?(?!x#)")
_NUMBERS = re.compile(r"#(?:, ?#)+")
_HELD = re.compile(r"\{[#:,… ]*#[#:,… ]*\}|\[[#,… ]*#[#,… ]*\]|\([#,… ]*#[#,… ]*\)")
# What was called with, and that a case was generated, differs from check to check of one mistake.
_CALL = re.compile(r"^(\w+)\([^()]*\)|(?<=while )(\w+)\(.*\)")
_GENERATED = re.compile(r" ?\(generated;[^()]*\)$")


def normalised(message: str) -> str:
    """The first line of a message without what differs from student to student and check to check.

    Arguments of the call go; numbers stand as #, also a container of nothing else; paths as PATH.
    """
    line = next((line for line in clean_lines(message[:4000]) if line.strip()), "")
    line = _CALL.sub(lambda found: f"{found[1] or found[2]}(…)", _GENERATED.sub("", line.strip()))
    line = _ADDRESS.sub("0x#", _PATH.sub("PATH", line))
    line = _NUMBERS.sub("#, …", _NUMBER.sub("#", line))
    line = _HELD.sub(lambda found: found[0][0] + "#" + found[0][-1], line)
    return clean(" ".join(line.split()), 240)


@dataclass
class TaskTally:
    """How often each outcome, and each answer that was wrong, came about."""

    outcomes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    more: int = 0

    def add_answer(self, answer: str) -> None:
        if answer in self.answers or len(self.answers) < MOST_GROUPS:
            self.answers[answer] += 1
        else:
            self.more += 1

    @property
    def shown(self) -> list[tuple[str, int]]:
        """The most frequent, of equal ones in the order of the alphabet."""
        order = sorted(self.answers.items(), key=lambda item: (-item[1], item[0]))
        return order[:ANSWERS_SHOWN]


class Tally:
    """Counts over a class, one student after another."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.tasks = {t.id: TaskTally() for e in sheet.exercises for t in e.tasks}
        self.earned: dict[str, list[Fraction]] = {e.id: [] for e in sheet.exercises}

    def add(self, mark: Mark) -> None:
        """Count one student in."""
        for exercise in mark.exercises:
            if exercise.earned is not None:
                self.earned[exercise.exercise.id].append(exercise.earned)
            for task in exercise.tasks:
                if not task.asked:
                    continue
                tally = self.tasks[task.task.id]
                tally.outcomes[task.outcome] += 1
                for answer in sorted(self._answers(task.result)):
                    tally.add_answer(answer)

    def _answers(self, task: Any) -> set[str]:
        """What one student got wrong in a task; the same thing in two checks counts once."""
        found = set()
        for check in task.checks if task is not None else ():
            if check.outcome not in ("failed", "error"):
                continue
            if check.hidden:
                found.add(HIDDEN_ANSWER)
            elif check.outcome == "error" and not check.message:
                found.add(cause_words(check.cause))
            else:
                found.add((f"{check.cause}: " if check.cause else "") + normalised(check.message))
        return found


# -- the page -----------------------------------------------------------------------------------------


def view(
    course: Course,
    tally: Tally,
    rows: Sequence[Row],
    unmatched: Sequence[tuple[Row, Unmatched]] = (),
    matches: Iterable[Match] = (),
    has_roster: bool = False,
    needs_look: Sequence[Look] = (),
) -> dict[str, Any]:
    """Everything that the class page shows, as texts."""
    policy = tally.sheet.policy
    every = [*rows, *(row for row, _ in unmatched)]
    names = {row.entry: row.name for row in every if row.entry}
    graded = [row for row in every if row.entry and row.after is not None]
    totals = sorted(row.after for row in graded if row.after is not None)
    full = tally.sheet.full
    return {
        "title": f"{clean(course.title, 200)}: the class",
        "facts": _facts(policy, totals, full, rows, every, has_roster),
        "histogram": histogram(totals, full, policy.show),
        "exercises": [_exercise(tally, exercise) for exercise in tally.sheet.exercises],
        "needs_look": needs_look,
        "students": [
            {
                "name": clean(row.name, 200),
                "points": "–" if row.after is None else policy.show(row.after),
                "note": row.note or ("no submission" if row.state == NO_SUBMISSION else ""),
            }
            for row in every
        ],
        "late": [
            {
                "student": clean(row.name, 200),
                "submitted": row.submitted,
                "days": row.late_days,
                "taken": policy.show(row.late_taken_pct),
            }
            for row in sorted(every, key=lambda row: (-row.late_days, row.entry))
            if row.late_days
        ],
        "time_unknown": sum(
            1 for row in every if policy.deadline and row.entry and not row.submitted
        ),
        "absent": [clean(row.name, 200) for row in rows if row.state == NO_SUBMISSION],
        "alike": alike(matches, names),
        "claims": sum(bool(row.claims) for row in every),
    }


def _facts(
    policy: Any,
    totals: Sequence[Fraction],
    full: Fraction,
    rows: Sequence[Row],
    every: Sequence[Row],
    has_roster: bool,
) -> list[tuple[str, str]]:
    handed_in = sum(bool(row.entry) for row in every) + sum(
        row.state.startswith(SEVERAL) for row in rows
    )
    facts = [("handed in" + (f", of {len(rows)} in the roster" if has_roster else ""), handed_in)]
    if totals:
        median = statistics.median(totals)
        facts += [
            (f"median, of {policy.show(full)} points", policy.show(median)),
            ("mean", policy.show(sum(totals, Fraction(0)) / len(totals))),
            ("lowest to highest", f"{policy.show(totals[0])} – {policy.show(totals[-1])}"),
        ]
    return [(str(value), label) for label, value in facts]


def _exercise(tally: Tally, exercise: Any) -> dict[str, Any]:
    policy = tally.sheet.policy
    tasks = []
    whole: Counter[str] = Counter()
    for task in exercise.tasks:
        if task.live and not tally.sheet.survey.gradable(task):
            continue
        one = tally.tasks[task.id]
        whole += one.outcomes
        tasks.append(
            {
                "id": task.id,
                "title": task.title,
                "claim": task.trust == "claim",
                "live": task.live,
                "further": task.further,
                "worth": policy.show(tally.sheet.weights[task.id]),
                "parts": parts(one.outcomes),
                "answers": one.shown,
                "more": sum(one.answers.values()) + one.more - sum(n for _, n in one.shown),
            }
        )
    files = _of_whole_files(tasks)
    earned = tally.earned[exercise.id]
    possible = tally.sheet.possible(exercise)
    return {
        "id": exercise.id,
        "title": exercise.title,
        "mean": policy.show(sum(earned, Fraction(0)) / len(earned)) if earned else "–",
        "possible": policy.show(possible),
        "parts": parts(whole),
        "files": files,
        "tasks": tasks,
    }


def _of_whole_files(tasks: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Take answers that stand at several tasks because the file itself is wrong out of these tasks."""
    places: Counter[str] = Counter(answer for task in tasks for answer, _ in task["answers"])
    counts: dict[str, int] = {}
    for task in tasks:
        for answer, count in task["answers"]:
            if places[answer] > 1 and (answer.partition(":")[0] in OF_FILES or CANNOT in answer):
                counts[answer] = max(count, counts.get(answer, 0))
        task["answers"] = [one for one in task["answers"] if one[0] not in counts]
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


_WITH = {
    "reference": "the reference solution",
    "student": "each other",
    "text": "nobody: the file runs text",
}
_HOW = {
    "exact": "as written",
    "renamed": "but for names",
    "hidden": "in encoded or compressed text",
}


def alike(matches: Iterable[Match], names: Mapping[str, str]) -> list[dict[str, str]]:
    """Likenesses as evidence for a person: what is equal, in whose work, how much of it.

    The functions of one exercise that the same students share stand in one row, the largest likeness first.
    """
    together: dict[tuple, list[Match]] = {}
    for match in matches:
        key = (match.exercise, match.students, match.kind, match.how)
        together.setdefault(key, []).append(match)
    rows = []
    ordered = sorted(together.items(), key=lambda one: -sum(match.size for match in one[1]))
    for (exercise, students, kind, _), found in ordered:
        units = {"tokens" if "." in match.function else "nodes" for match in found}
        size = sum(match.size for match in found)
        have = max(match.compared for match in found)
        rows.append(
            {
                "exercise": exercise,
                "what": clean(_some([match.function for match in found], FUNCTIONS_SHOWN), 2000),
                "students": "; ".join(clean(names.get(one, one), 200) for one in students),
                "with": _WITH[kind],
                "measure": "exec, eval, compile or marshal: read it"
                if kind == "text"
                else f"equal {_HOW[found[0].how]}, {size} {' and '.join(sorted(units))}; "
                f"{len(students)} of {have} who have it",
            }
        )
    return rows


def _some(names: Sequence[str], most: int) -> str:
    """The first names of a list, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def histogram(totals: Sequence[Fraction], full: Fraction, show: Any) -> dict[str, Any] | None:
    """Ten columns from 0 to full points; more than full falls into the last. None without totals."""
    if not totals or not full:
        return None
    counts = [0] * BINS
    for value in totals:
        counts[min(int(value * BINS / full), BINS - 1)] += 1
    most = max(counts)
    left, top, width, height, gap = 34, 30, 660, 180, 6
    step = width / BINS
    columns = []
    for at, count in enumerate(counts):
        tall = round(height * count / most, 1)
        columns.append(
            {
                "x": round(left + at * step + gap / 2, 1),
                "y": round(top + height - tall, 1),
                "width": round(step - gap, 1),
                "height": tall,
                "count": count,
                "middle": round(left + (at + 0.5) * step, 1),
                "range": f"{show(full * at / BINS)} to {show(full * (at + 1) / BINS)}",
            }
        )
    ticks = [
        {"x": round(left + at * step, 1), "label": show(full * at / BINS)}
        for at in range(0, BINS + 1, 2)
    ]
    return {
        "columns": columns,
        "ticks": ticks,
        "base": top + height,
        "left": left,
        "right": left + width,
        "box": f"0 0 {left + width + 24} {top + height + 66}",
    }


def html_page(shown: dict[str, Any]) -> str:
    """The class page: one file, no script, nothing fetched."""
    return encodable(environment().get_template("class.html.j2").render(shown))


def markdown_page(shown: dict[str, Any]) -> str:
    """The same in Markdown, without the drawing."""
    out = [f"# {inline(shown['title'])}", ""]
    if shown["needs_look"]:
        out += ["## Needs a look", "", "Until it is done, these students lack points.", ""]
        out += [
            f"- **{inline(look.who)}**: {inline(look.why, 400)}. To do: {look.do}."
            for look in shown["needs_look"]
        ]
        out.append("")
    out += [f"- {label}: {value}" for value, label in shown["facts"]]
    for heading, lines in _look(shown):
        out += ["", f"## {heading}", ""] + lines
    if shown["histogram"]:
        out += ["", "## Distribution", "", "| Points | Students |", "|---|---|"]
        for column in shown["histogram"]["columns"]:
            out.append(f"| {column['range']} | {column['count']} |")
    for exercise in shown["exercises"]:
        out += ["", f"## {exercise['id']}: {exercise['title']}", ""]
        out += [
            f"Mean {exercise['mean']} of {exercise['possible']}. {_tally(exercise['parts'])}",
            "",
        ]
        out += ["| Task | Points | Outcomes |", "|---|---|---|"]
        for task in exercise["tasks"]:
            out.append(f"| `{task['id']}` | {task['worth']} | {_tally(task['parts'])} |")
        if exercise["files"]:
            out += ["", "Files that could not be judged at all:", ""]
            out += [f"- {count} × {inline(answer, 300)}" for answer, count in exercise["files"]]
        for task in exercise["tasks"]:
            if task["answers"]:
                out += ["", f"Most frequent wrong answers of `{task['id']}`:", ""]
                out += [f"- {count} × {inline(answer, 300)}" for answer, count in task["answers"]]
                if task["more"]:
                    out.append(f"- {task['more']} × others")
    out += ["", "## Students", "", "| Student | Points | Note |", "|---|---|---|"]
    for row in shown["students"]:
        out.append(f"| {inline(row['name'])} | {row['points']} | {inline(row['note'], 500)} |")
    return encodable("\n".join(out) + "\n")


def _tally(counted: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {MEANING[outcome][0]}" for outcome, count in counted)


def _look(shown: dict[str, Any]) -> Iterable[tuple[str, list[str]]]:
    """What a person should know of the class, by heading."""
    if shown["alike"]:
        lines = [
            f"- {row['exercise']}, {inline(row['what'], 2000)}: {inline(row['students'], 400)}, "
            f"like {row['with']} "
            f"({row['measure']})"
            for row in shown["alike"]
        ]
        yield "Alike: evidence for a person to judge, no verdict", lines
    if shown["late"] or shown["time_unknown"]:
        lines = [
            f"- {inline(row['student'])}: {row['days']} days, {row['taken']} % taken off"
            for row in shown["late"]
        ]
        if shown["time_unknown"]:
            lines.append(f"- of {shown['time_unknown']} it is not known when they were handed in")
        yield "Late", lines
    if shown["absent"]:
        yield "No submission", [f"- {inline(name)}" for name in shown["absent"]]
