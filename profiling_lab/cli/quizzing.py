"""`lab quiz`: questions about real captures, answered one at a time."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profiling_lab import captures
from profiling_lab.cli.screen import LAB, bold, dim, wrap
from profiling_lab.course import lab_folder
from profiling_lab.course.manifest import find_root
from profiling_lab.course.quiz import EXAMPLES, TOPICS, judge, letters
from profiling_lab.course.quiz.questions import QUESTIONS
from profiling_lab.errors import CourseError, LabError

if TYPE_CHECKING:
    from profiling_lab.course.quiz import Asked, Question

KEPT = "quiz.json"  # in .lab


@click.command()
@click.argument("name", required=False)
@click.option("--topic", metavar="TOPIC", help="Only questions of this topic (see --list).")
@click.option("--answer", metavar="TEXT", help="Answer the question NAME without being asked.")
@click.option(
    "--list", "listed", is_flag=True, help="List all questions, and say which you answered."
)
@click.option("--again", is_flag=True, help="Forget all answers, and start again.")
def quiz(name: str | None, topic: str | None, answer: str | None, listed: bool, again: bool) -> int:
    """Answer interview questions about real captures.

    The topics are the week's interview questions. Each answer is computed from the capture that the
    question names. Open it any way you like (SQL, Python, lab report), find the number, and give it
    with its unit. A question that you got wrong comes again, about another capture if there is one.
    An empty line skips a question; Ctrl-C ends. Your answers are kept in .lab/.
    Exits with 1 if the answer given by --answer is wrong.

    \b
      uv run lab quiz                          the next questions
      uv run lab quiz --topic limits           about one topic
      uv run lab quiz ridge --answer 14        one question, without a dialogue
    """
    if not (listed or captures.names()):
        raise LabError(
            "the quiz asks about the course's captures: call it in a clone of the course"
        )
    kept = {} if again else _read()
    if again:
        _write(kept)
    chosen = [_named(name)] if name else [q for q in QUESTIONS if topic in (None, q.topic)]
    if not chosen:
        raise LabError(f"--topic {topic}: no such topic; one of {', '.join(_topics())}")
    if listed:
        _list(chosen, kept)
        return 0
    if answer is not None:
        if not name:
            raise LabError("--answer needs the NAME of the question; see lab quiz --list")
        return 0 if _ask(chosen[0], kept, answer) else 1
    open_ones = chosen if name else [q for q in chosen if not kept.get(q.name, {}).get("right")]
    if not open_ones:
        click.echo(
            f"All {len(chosen)} are answered. Again, about other captures: {LAB} quiz --again"
        )
        return 0
    for question in open_ones if sys.stdin.isatty() else open_ones[:1]:
        _ask(question, kept, None)
        click.echo()
    _list_score(kept)
    return 0


def _ask(question: Question, kept: dict[str, dict[str, Any]], given: str | None) -> bool:
    """Put one question, take or read the answer, say what is right, and keep the outcome: was it right?"""
    entry = kept.setdefault(question.name, {"asked": 0, "right": False})
    asked = question.ask(question.captures[entry["asked"] % len(question.captures)])
    click.echo(dim(TOPICS[question.topic]))
    click.echo(bold(question.name))
    click.echo(wrap(asked.text))
    _show_choices(asked)
    if given is None:
        if not sys.stdin.isatty():
            click.echo(dim(f"Answer it: {LAB} quiz {question.name} --answer TEXT"))
            return False
        given = _prompt(asked)
        if given is None:
            return False
    right = judge(asked, given)
    entry["asked"] += 1
    entry["right"] = right
    _write(kept)
    click.echo(click.style("Right.", fg="green") if right else click.style("No.", fg="red"))
    click.echo(wrap(asked.because))
    click.echo(dim(wrap(f"How to find it: {asked.look}", "  ", first="")))
    click.echo(dim(f"Lesson: {place(question)}"))
    return right


def _prompt(asked: Asked) -> str | None:
    """An answer that can be read; None for an empty line."""
    while True:
        given = click.prompt("Answer", default="", show_default=False)
        if not given.strip():
            return None
        try:
            judge(asked, given)
        except LabError as error:
            click.echo(str(error))
            continue
        return given


def _show_choices(asked: Asked) -> None:
    for letter, choice in letters(asked.choices).items():
        click.echo(f"  {letter}) {choice}")
    if not asked.choices:
        off = f", within {asked.tolerance:.0%}" if asked.tolerance else ""
        click.echo(dim(f"  a number, as in {EXAMPLES[asked.unit]}{off}"))


def place(question: Question) -> str:
    """The lesson that explains a question, as a file and the title of its section."""
    file, _, title = question.lesson.partition("#")
    return f"{file}, “{title}”" if title else file


def _list(questions: list[Question], kept: dict[str, dict[str, Any]]) -> None:
    shown = None
    for question in questions:
        if question.topic != shown:
            click.echo(bold(question.topic) + "  " + TOPICS[question.topic])
            shown = question.topic
        entry = kept.get(question.name, {})
        mark = "right" if entry.get("right") else "wrong" if entry.get("asked") else ""
        about = question.ask.__doc__ or ""
        click.echo(wrap(about.splitlines()[0], " " * 33, f"  {question.name:24}{mark:7}"))
    _list_score(kept)


def _list_score(kept: dict[str, dict[str, Any]]) -> None:
    right = sum(bool(kept.get(question.name, {}).get("right")) for question in QUESTIONS)
    following = f"Next: {LAB} quiz" if right < len(QUESTIONS) else f"Again: {LAB} quiz --again"
    click.echo(f"{right} of {len(QUESTIONS)} answered right. {following}")


def _named(name: str) -> Question:
    import difflib

    by_name = {question.name: question for question in QUESTIONS}
    if name not in by_name:
        close = difflib.get_close_matches(name, by_name, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else "see lab quiz --list"
        raise LabError(f"{name}: no such question; {hint}")
    return by_name[name]


def _topics() -> list[str]:
    return list(TOPICS)


def _root() -> Path | None:
    try:
        return find_root()
    except CourseError:
        return None


def _read() -> dict[str, dict[str, Any]]:
    """What was answered; nothing where that cannot be read."""
    root = _root()
    try:
        data = lab_folder.read(root, KEPT) if root else {}
        return {
            str(name): {"asked": int(entry["asked"]), "right": bool(entry["right"])}
            for name, entry in data.items()
        }
    except (ValueError, TypeError, KeyError):
        return {}


def _write(kept: dict[str, dict[str, Any]]) -> None:
    if root := _root():
        # A course that cannot be written to can still be asked about.
        with contextlib.suppress(OSError):
            lab_folder.write(root, KEPT, kept)
