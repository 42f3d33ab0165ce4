"""`lab submit`: the learner's work as one file for grading."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import click

from profiling_lab.atomic_files import replaced
from profiling_lab.cli.screen import LAB, bold, load_course, short, wrap
from profiling_lab.cli.status import say_waiting
from profiling_lab.course import progress
from profiling_lab.course.manifest import Course, Task
from profiling_lab.errors import CourseError, LabError

SUBMISSION = "submission.zip"
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same work gives the same file


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path(SUBMISSION),
    show_default=True,
    help="The zip file to write; graders read your name from its name.",
)
def submit(output: Path) -> int:
    """Pack the exercises' files, and only those, as a zip file for the grader.

    Says what is in it, what is still to do, and the score of your last check.

    \b
      uv run lab submit --output ada_lovelace.zip
    """
    course = load_course()
    if output.is_dir():
        output = output / SUBMISSION
    if not output.parent.is_dir():
        raise LabError(f"{output}: there is no folder {output.parent}")
    verdicts = progress.verdicts(course)
    files = [stub for exercise in course.exercises for stub in exercise.stubs]
    present = [stub for stub in files if (course.root / stub).is_file()]
    if not present:
        raise CourseError(f"{course.root}: none of the exercises' files is there; {LAB} reset ID")
    try:
        _pack(course, present, output)
    except OSError as error:
        raise LabError(f"{output}: cannot be written ({error.strerror})") from None
    begun = [e for e in course.exercises if any(_has_work(verdicts, task) for task in e.tasks)]
    shown = [stub for exercise in begun for stub in exercise.stubs if stub in present]
    click.echo(bold(short(output.resolve())) + f"  {output.stat().st_size:,} bytes, holds")
    for stub in shown:
        click.echo(f"  {stub}")
    if rest := len(present) - len(shown):
        click.echo(
            f"  and {rest} {'file' if rest == 1 else 'files'} of exercises that are not begun"
        )
    for stub in files:
        if stub not in present:
            click.echo(click.style(f"  missing, counts as to do: {stub}", fg="yellow"))
    click.echo()
    portable = [task for exercise in begun for task in exercise.tasks if task.core]
    click.echo(bold(progress.points(course, verdicts)) + " at the last check")
    for outcome, words in (
        ("failed", "failed"),
        ("unchecked", f"changed since the last check ({LAB} check ID)"),
        ("blocked", "blocked by another task"),
        ("todo", "still to do"),
        ("not run", "not run on this machine; the grader's may run it"),
    ):
        names = [task.id for task in portable if verdicts[task.id].outcome == outcome]
        if names:
            click.echo(wrap(f"{words}: {', '.join(names)}", "    ", "  "))
    if idle := [exercise.id for exercise in course.exercises if exercise not in begun]:
        click.echo(wrap(f"not begun: {', '.join(idle)}", "    ", "  "))
    say_waiting(course, verdicts, "  ")
    return 0


def _has_work(verdicts: Mapping[str, progress.Verdict], task: Task) -> bool:
    """Whether a learner has written something for a task, whatever came of it."""
    return verdicts[task.id].outcome in ("passed", "failed", "unchecked")


def _pack(course: Course, files: list[PurePosixPath], output: Path) -> None:
    with replaced(output) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for stub in files:
            info = zipfile.ZipInfo(str(stub), ZIP_DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, (course.root / stub).read_bytes())
