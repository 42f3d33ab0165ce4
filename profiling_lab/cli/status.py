"""Bare `lab`: where am I, what is next, what can this machine do."""

from __future__ import annotations

import click

from profiling_lab import needs
from profiling_lab.cli.screen import LAB, bar, bold, dim, load_course, short, width, wrap
from profiling_lab.course import doctor, progress
from profiling_lab.course.manifest import Course, Exercise, Task
from profiling_lab.course.progress import Verdict

SHOWN_EXERCISES = 8  # beyond that only what is begun, so that the screen stays one screen
WORDS = {
    "failed": ("failed", "red"),
    "blocked": ("blocked", "yellow"),
    "unchecked": ("changed since the last check", "yellow"),
    "not run": ("not run here", None),
}


def show() -> int:
    """Print the status screen."""
    course = load_course()
    verdicts = progress.verdicts(course)
    figures = progress.points(course, verdicts)
    click.echo(_ends(bold(course.title), len(course.title), figures))
    click.echo()
    following = next_task(course, verdicts)
    hidden = 0
    for exercise in course.exercises:
        begun = any(verdicts[task.id].outcome != "todo" for task in exercise.tasks)
        is_next = following is not None and following.exercise == exercise.id
        if len(course.exercises) <= SHOWN_EXERCISES or begun or is_next:
            _show_exercise(exercise, verdicts)
        else:
            hidden += 1
    if hidden:
        click.echo(
            dim(f"  and {hidden} exercises not begun; start with any of them, see README.md")
        )
    click.echo()
    _show_next(course, following, verdicts)
    click.echo()
    click.echo(wrap(machine_line(), indent="  ", first=""))
    say_waiting(course, verdicts)
    return 0


def waiting(course: Course, verdicts: dict[str, Verdict]) -> str:
    """What is open and would run here once something is installed, with the command; "" for nothing."""
    tasks = [task for task in course.tasks.values() if not task.live]
    return needs.waiting(
        (task for task in tasks if verdicts[task.id].outcome != "passed"), doctor.capabilities()
    )


def say_waiting(course: Course, verdicts: dict[str, Verdict], indent: str = "") -> bool:
    """Print what `waiting` says, the command on a line of its own, to be copied; whether there was any."""
    words, _, command = waiting(course, verdicts).partition(": ")
    if command:
        click.echo(wrap(f"{words}:", f"{indent}  ", indent))
        click.echo(f"{indent}  {command}")
    return bool(command)


def next_task(
    course: Course, verdicts: dict[str, Verdict], exercise: Exercise | None = None
) -> Task | None:
    """The task to go on with; None if all is done.

    The first of `progress.ahead`, of one exercise or of all.
    """
    tasks = exercise.tasks if exercise else course.tasks.values()
    return next(iter(progress.ahead(tasks, verdicts, doctor.capabilities())), None)


def _show_exercise(exercise: Exercise, verdicts: dict[str, Verdict]) -> None:
    portable = [task for task in exercise.tasks if task.core]
    passed = [task for task in portable if verdicts[task.id].outcome == "passed"]
    earned = sum(task.points for task in passed)
    possible = exercise.points
    figures = f"{bar(earned / possible if possible else 0)} {earned:>3} of {possible}"
    name = f"  {exercise.id}  {exercise.title}"
    room = width() - len(figures) - 2
    if len(name) > room:
        name = name[: room - 1].rstrip() + "…"
    click.echo(_ends(name, len(name), figures))
    notes: list[tuple[str, str | None]] = []
    if passed:
        notes.append((f"{len(passed)} of {len(portable)} tasks passed", "green"))
    for outcome, (words, color) in WORDS.items():
        names = [task.name for task in portable if verdicts[task.id].outcome == outcome]
        if names:
            shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            notes.append((f"{words}: {shown}", color))
    further = [task for task in exercise.tasks if task.further]
    if done := sum(verdicts[task.id].outcome == "passed" for task in further):
        notes.append((f"{done} of {len(further)} further tasks passed", "green"))
    for text, color in notes:
        indent = " " * (len(exercise.id) + 4)
        click.echo(click.style(wrap(text, indent + "  ", indent), fg=color, dim=color is None))


def _show_next(course: Course, task: Task | None, verdicts: dict[str, Verdict]) -> None:
    if task is None:
        done = "All that runs here is done." if waiting(course, verdicts) else "All done."
        click.echo(bold(done) + f"  Hand in: {LAB} submit")
        click.echo(f"  your own program: {LAB} diagnose FILE.sqlite")
        return
    outcome = verdicts[task.id].outcome
    apart = ", further" if task.further else ""
    head = f"{task.id}  {task.title}  ({task.points} points{apart})"
    click.echo(bold("Next: ") + head)
    exercise = course.exercise(task.exercise)
    what = task.name if not task.is_cuda else "the TODO"
    rows = [
        ("read", short(course.lesson(exercise))),
        ("write", f"{what} in {short(course.root / task.stub)}"),
        ("check", f"{LAB} check {task.id}"),
        ("stuck?", f"{LAB} hint {task.id}"),
    ]
    if outcome == "unchecked":
        rows = [rows[2], rows[3]]
    elif outcome == "failed":
        message = " ".join(verdicts[task.id].message.split())
        click.echo(click.style(wrap(message[:300], "    ", "  ✗ "), fg="red"))
        rows = rows[1:]
    for label, text in rows:
        click.echo(f"  {label:<7} {text}")


def machine_line() -> str:
    """One line on this machine, from what its files say; nothing is started."""
    can = doctor.capabilities()
    names = {"gpu": "GPU", "nsys": "nsys", "ncu": "ncu", "nvcc": "nvcc", "torch": "torch"}
    here = [name for key, name in names.items() if key in can]
    missing = [f"no {name}" for key, name in names.items() if key not in can]
    text = f"This machine: {', '.join([*here, *missing])}."
    if "gpu" not in can:
        text += " You work with recorded captures, for the same points."
    return f"{text} More: {LAB} doctor"


def _ends(left: str, left_length: int, right: str) -> str:
    """Two texts at the two ends of a line."""
    return left + " " * max(2, width() - left_length - len(right)) + right
