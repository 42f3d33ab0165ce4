"""`lab hint`: first a question; asked again, something stronger."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator

import click

from profiling_lab.cli.screen import LAB, bold, dim, find, load_course, short, width, wrap
from profiling_lab.cli.status import next_task
from profiling_lab.course import lab_folder, progress
from profiling_lab.course.manifest import Course, Task
from profiling_lab.errors import CourseError

SHOWN = "hints.json"  # in .lab: how many steps of each task were shown
_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*$")
_DETAILS = re.compile(r"</?details>|<summary>.*?</summary>", re.DOTALL | re.IGNORECASE)


@click.command()
@click.argument("identifier", metavar="ID[.TASK]", required=False)
@click.option("--more", is_flag=True, help="Show the stronger hint at once.")
def hint(identifier: str | None, more: bool) -> int:
    """Show a question that helps, and a stronger hint if you ask again. Never the code.

    Without a task it takes the first task that has no points yet. Hints cost no points. Which hints
    you have seen is kept in .lab/.

    \b
      uv run lab hint ex_30.busy_time
      uv run lab hint ex_30.busy_time --more
    """
    course = load_course()
    show(course, _which(course, identifier), more=more)
    return 0


def show(course: Course, task: Task, *, more: bool = False) -> None:
    """Print the hints for a task that are due, and note that they were shown."""
    steps = hint_steps(course, task)
    shown = _read(course)
    level = min(shown.get(task.id, 0) + 1, len(steps))
    if more:
        level = min(max(level, 2), len(steps))
    click.echo(bold(task.id) + f"  {task.title}")
    click.echo()
    for number, text in enumerate(steps[:level]):
        if number:
            click.echo()
        render(text)
    click.echo()
    if level < len(steps):
        click.echo(dim(f"For a stronger hint, run it again: {LAB} hint {task.id}"))
    else:
        lesson = short(course.lesson(course.exercise(task.exercise)))
        click.echo(dim("That was all."))
        click.echo(dim(f"The lesson is {lesson}, the contract the docstring."))
    _write(course, {**shown, task.id: level})


def _which(course: Course, identifier: str | None) -> Task:
    verdicts = progress.verdicts(course)
    if identifier is None:
        following = next_task(course, verdicts)
        if following is None:
            raise CourseError(f"all tasks have their points; name one: {LAB} hint ID.TASK")
        return following
    exercise, tasks = find(course, identifier)
    if len(tasks) == 1:
        return tasks[0]
    return next_task(course, verdicts, exercise) or tasks[0]


def hint_steps(course: Course, task: Task) -> list[str]:
    """The hints for a task, weakest first, as Markdown.

    `hints.md` has a section for each task, whose heading holds the task's name. In the section the
    hints are set apart by headings of a lower level, by `<details>`, or else by blank lines.
    Raises CourseError if there is no section.
    """
    file = course.hints(course.exercise(task.exercise))
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        raise CourseError(f"{file}: no hints there; read the lesson and the docstring") from None
    section = _section(text, task)
    if not section.strip():
        raise CourseError(
            f"{file}: has no section for {task.id}; read the lesson and the docstring"
        )
    parts = _split(section)
    return [part for part in parts if part] or [section.strip()]


def _section(text: str, task: Task) -> str:
    """The lines under the heading that names the task, up to the next heading of its level."""
    lines: list[str] = []
    level = 0
    fenced = False
    named = re.compile(rf"(?<![\w]){re.escape(task.name)}(?![\w])")
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading and level and len(heading[1]) <= level:
            break
        # The title of the file may hold the name of a task as well.
        if heading and not level and len(heading[1]) > 1 and named.search(heading[2]):
            level = len(heading[1])
        elif level:
            lines.append(line)
    return "\n".join(lines)


def _split(section: str) -> list[str]:
    if re.search(r"^#{1,6} ", section, re.MULTILINE):
        preface, *parts = re.split(r"^#{1,6} .*$", section, flags=re.MULTILINE)
        parts[0] = f"{preface.strip()}\n\n{parts[0].strip()}"
    elif "<details>" in section.lower():
        parts = re.split(r"(?i)<details>", section)
    else:
        first, _, rest = section.strip().partition("\n\n")
        parts = [first, rest]
    return [_DETAILS.sub("", part).strip() for part in parts]


def render(markdown: str) -> None:
    """Print Markdown: set in a terminal, as it is elsewhere."""
    if not sys.stdout.isatty():
        click.echo("\n".join(list(_wrapped(markdown))[:-1]))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=width()).print(Markdown(markdown))


def _wrapped(markdown: str) -> Iterator[str]:
    """The lines of Markdown, its paragraphs and list items in lines of the terminal's width."""
    fenced, lines = False, []
    for line in [*markdown.splitlines(), ""]:
        fence = line.lstrip().startswith("```")
        starts = re.match(r"\s*([-*+]|\d+\.) ", line)
        as_it_is = fenced or fence or not line.strip() or line.lstrip().startswith(("|", "#", ">"))
        if lines and (as_it_is or starts):
            first = re.match(r"\s*(?:(?:[-*+]|\d+\.) )?", lines[0])
            assert first is not None
            text = " ".join([lines[0][first.end() :], *lines[1:]])
            yield wrap(text, " " * first.end(), first[0])
            lines = []
        if as_it_is:
            yield line
        else:
            lines.append(line)
        fenced ^= fence


def _read(course: Course) -> dict[str, int]:
    try:
        return {key: int(value) for key, value in lab_folder.read(course.root, SHOWN).items()}
    except (ValueError, TypeError):
        return {}


def _write(course: Course, shown: dict[str, int]) -> None:
    with contextlib.suppress(OSError):  # a course that cannot be written to still gives hints
        lab_folder.write(course.root, SHOWN, shown)
