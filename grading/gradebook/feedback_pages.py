"""A student's page, in HTML, whose template escapes everything, and in Markdown."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grading.gradebook.student_view import MEANING, StudentView, TaskView
from grading.gradebook.untrusted_text import encodable, fenced, inline

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"


@functools.lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The templates' environment: everything is escaped, a name that is missing is an error."""
    import jinja2
    from markupsafe import Markup, escape

    def code(text: str) -> Markup:
        """A hint's `words` between backticks as code; all of it escaped."""
        words = re.split(r"`([^`]+)`", text)
        return Markup().join(
            Markup("<code>{}</code>").format(word) if at % 2 else escape(word)
            for at, word in enumerate(words)
        )

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["code"] = code
    made.filters["others"] = others
    made.filters["slug"] = lambda outcome: str(outcome).replace(" ", "-")
    style = Markup((TEMPLATES / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    shared: dict[str, Any] = {"style": style}
    shared["meaning"] = {outcome: words[0] for outcome, words in MEANING.items()}
    made.globals.update(shared)
    return made


def html_page(student: StudentView) -> str:
    """The page of one student: one file, no script, nothing fetched."""
    return encodable(environment().get_template("feedback.html.j2").render(student=student))


def markdown_page(student: StudentView) -> str:
    """The same in Markdown."""
    out = [f"# {student.course}: {inline(student.name)}", ""]
    if student.refused:
        out += [f"**Your submission could not be accepted**: {inline(student.refused, 500)}", ""]
        out += [student.refused_advice, ""]
    if student.incomplete:
        out += [f"**Not complete yet.** {inline(student.why_incomplete, 500)}"]
    else:
        out += [f"**{student.total} of {student.out_of} points**"]
    out += [line for note in student.notes for line in ("", inline(note, 500))]
    if student.live:
        out += ["", f"Live score (on a GPU, counted apart): {student.live}."]
    if student.further:
        out += ["", f"Further tasks: {student.further}."]
    if student.following or student.files:
        out += ["", "## What to do next", ""]
        out += [f"1. {inline(file.path)}: {file.advice}" for file in student.files]
        for number, task in enumerate(student.following, len(student.files) + 1):
            out += [f"{number}. `{task.id}`, {task.title} ({task.word}): `{task.hint}`"]
    out += ["", "## Exercises", "", "| Exercise | Points | Tasks |", "|---|---|---|"]
    for exercise in student.started:
        tally = ", ".join(f"{count} {MEANING[name][0]}" for name, count in exercise.parts)
        points = f"{exercise.earned or '–'} of {exercise.possible}"
        out += [f"| {exercise.id}: {inline(exercise.title)} | {points} | {tally} |"]
    if student.untouched:
        names = ", ".join(f"{e.id} ({e.possible})" for e in student.untouched)
        out += ["", f"Not started, with their points: {names}."]
    for hand in student.by_hand:
        out += ["", f"## {inline(hand.title)}", ""]
        out += [f"**{hand.earned} of {hand.possible} points**, by a person", ""]
        out += ["| For | Points | What earns them |", "|---|---|---|"]
        out += [f"| {inline(n)} | {p} of {f} | {inline(why)} |" for n, p, f, why in hand.rows]
        if hand.comment:
            out += ["", *fenced(hand.comment)]
    for exercise in student.started:
        out += ["", f"## {exercise.id}: {exercise.title}"]
        out += [line for note in exercise.notes for line in ("", inline(note, 500))]
        for file in exercise.files:
            out += ["", f"### {inline(file.path)}", "", inline(file.cause, 300), ""]
            out += [*fenced(file.lines), "", file.advice, ""]
            out += [f"So there is no verdict on {', '.join(file.names)}."]
        for task in exercise.tasks:
            out += _task_markdown(task)
    if student.words:
        out += ["", "## Words", ""]
        out += [f"- **{word}**: {meaning}" for word, meaning in student.words]
    return encodable("\n".join(out) + "\n")


def _task_markdown(task: TaskView) -> list[str]:
    if not task.needs_work and not task.checks:
        return []
    points = f"{task.earned or '–'} of {task.worth}"
    out = ["", f"### {task.id}: {task.title}", "", f"**{task.word}**, {points} points"]
    out += [line for note in task.notes for line in ("", inline(note, 500))]
    for check in task.checks:
        label = "Hidden check" if check.hidden else f"Check `{check.name.replace('`', '')}`"
        out += ["", f"{label}{': ' + inline(check.cause, 300) if check.cause else ''}"]
        if check.lines:
            out += ["", *fenced(check.lines)]
    if tally := others(task):
        out += ["", tally]
    if task.question:
        out += ["", f"Ask yourself: {task.question}"]
    if task.lesson:
        out += ["", f"Read {task.lesson}; a stronger hint: `{task.hint}`"]
    return out


def others(task: TaskView) -> str:
    """How many checks of a task there are besides those shown; "" if none."""
    said = []
    if task.more:
        said.append(f"{task.more} more did not pass")
    if task.passed:
        said.append(f"{task.passed} passed")
    return f"Of its other checks {' and '.join(said)}." if said else ""
