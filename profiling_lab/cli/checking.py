"""`lab check` and `lab watch`: run the checks of an exercise or a task, once or at every save."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click

from profiling_lab import captures
from profiling_lab.cli.app import complain
from profiling_lab.cli.screen import LAB, find, load_course
from profiling_lab.cli.status import next_task, say_waiting
from profiling_lab.course import manifest, progress
from profiling_lab.course.manifest import Course, Exercise, Task
from profiling_lab.errors import CourseError, LabError
from profiling_lab.mine.functions import EXERCISES

NO_CHECKS_COLLECTED = 5  # pytest's exit code


@click.command()
@click.argument("identifier", metavar="[ID]", required=False)
@click.option(
    "--capture",
    metavar="FILE",
    help="Run the checks that read recordings on your own one, a file or a folder. The expected "
    "results are computed from it.",
)
@click.option("--against", metavar="TREE", help="Judge another tree (solutions, a submission).")
@click.option("--live", is_flag=True, help="Add the checks that need this machine's GPU.")
@click.option("--verbose", "-v", is_flag=True, help="Name every check, and show longer traces.")
def check(
    identifier: str | None, capture: str | None, against: str | None, live: bool, verbose: bool
) -> int:
    """Check an exercise (ex_30), a task (ex_30.busy_time), or what is next.

    Exits with 0 if nothing failed, with 1 if a check failed or none of the named tasks is written
    yet, and with 2 if ID or FILE is wrong.

    \b
      uv run lab check ex_30.busy_time
      uv run lab check ex_30 --capture my_run.sqlite
      uv run lab check ex_31 --capture my_kernels.csv
      uv run lab check ex_30 --against solutions

    Stuck? uv run lab hint ID. Passed? uv run lab solution ID shows the reference.
    """
    course = load_course()
    if identifier is None:
        following = next_task(course, progress.verdicts(course))
        if following is None:
            if not say_waiting(course, progress.verdicts(course)):
                click.echo("All tasks have their points.")
            click.echo(f"Name a task to check it again: {LAB} check ID")
            return 0
        identifier = following.exercise
    exercise, tasks = find(course, identifier)
    arguments = selection(course, tasks)
    if not arguments:
        raise CourseError(f"{identifier}: has no checks yet (see CONTRIBUTING.md)")
    arguments += ["--against", _tree(course, against), "--partial"] if against else []
    arguments += ["--live"] if live or all(task.live for task in tasks) else []
    if capture is not None:
        arguments += ["--recording", str(_own_capture(capture, exercise))]
    return run_checks(course, arguments, verbose=verbose)


def selection(course: Course, tasks: Iterable[Task]) -> list[str]:
    """The checks of tasks, in pytest's words: whole files where possible, else single functions."""
    wanted = {task.id: task for task in tasks}
    out = []
    for file in dict.fromkeys(course.checks(task.stub) for task in wanted.values()):
        bound = manifest.checks_in(file)
        chosen = [name for name, identifier in bound if identifier in wanted]
        inside = os.path.relpath(file, course.root).replace(os.sep, "/")
        if len(chosen) == len(bound) and chosen:
            out.append(inside)
        else:
            out += [f"{inside}::{name}" for name in chosen]
    return out


def run_checks(course: Course, arguments: list[str], *, verbose: bool = False) -> int:
    """Run pytest from the course's root in a process of its own; returns the exit code of `lab`."""
    with tempfile.TemporaryDirectory(prefix="lab_") as scratch:
        score = Path(scratch) / "score.json"
        command = [sys.executable, "-m", "pytest", *configuration(course)]
        command += ["--no-header", "--score-json", str(score)]
        command += ["-p", "no:unraisableexception"]  # collects garbage at the end, five times
        command += ["-v"] if verbose else ["-q", "--tb=short", "--show-capture=stdout"]
        command += ["-r", "N", "-W", "ignore::DeprecationWarning", *arguments]
        # Plugins of other packages have no part in a check, and some cost 0.2 s.
        environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **os.environ}
        sys.stdout.flush()
        code = subprocess.run(command, cwd=course.root, env=environment, check=False).returncode
        finished = score.is_file()
        untouched = finished and _is_untouched(score)
    if code in (0, 1) and finished:
        return 1 if untouched else code
    if code == NO_CHECKS_COLLECTED:
        return complain("no check ran: the selection is empty")
    if code in (2, 3, 4) and not finished:
        return complain("the checks could not run; what is above says why")
    return complain(
        f"the checks ended early (exit code {code}): the code under test ended the whole process; "
        "check again to see in which check this happened",
        code=1,
    )


def _is_untouched(score: Path) -> bool:
    """Whether none of the tasks that were checked is written yet."""
    tasks = json.loads(score.read_text(encoding="utf-8"))["tasks"].values()
    return {task["outcome"] for task in tasks} == {"todo"}


def configuration(course: Course) -> list[str]:
    """pytest's options that name its configuration, which it else looks for above all paths given.

    (The value of an option counts as such a path too: the folder of a capture, say.)
    """
    return ["--config-file", str(course.root / "pyproject.toml"), "--rootdir", str(course.root)]


def _tree(course: Course, against: str) -> str:
    for base in (Path.cwd(), course.root):
        if (base / against).is_dir():
            return str((base / against).resolve())
    if not course.has_references:
        raise LabError(
            f"{against}: no such folder to check against; this copy comes without references"
        )
    raise LabError(f"{against}: no such folder to check against; the reference is: solutions")


def _own_capture(name: str, exercise: Exercise) -> Path:
    """Where a capture lies, after making sure that it is of the kind that an exercise reads.

    A timeline is opened too: it must be readable and hold device work.
    """
    reads = {identifier: kind for kind, identifier in EXERCISES.items()}.get(exercise.id)
    place = captures.place(name)
    asked = reads in (captures.Kind.KERNELS, captures.Kind.TRACE)
    found = captures.kind(name) if asked or place.is_file() else ""
    if asked and found != reads:
        raise LabError(f"{name}: a capture of kind {found}; {exercise.id} reads {reads}")
    if captures.Kind.TIMELINE not in (reads, found):
        return place.resolve()  # the checks say what they do not find in it
    with captures.open(name) as recording:
        recording.device_operations  # noqa: B018 - raises if there is none
        return recording.file.resolve()


@click.command()
@click.argument("identifier", metavar="[ID]", required=False)
def watch(identifier: str | None) -> int:
    """Check again whenever you save.

    Watches the files you edit, of one exercise or task or of all, runs the checks of what you
    changed, and shows the first thing to fix. Keys: h hint, n next task, a all, q quit.

    \b
      uv run lab watch
      uv run lab watch ex_30
    """
    course = load_course()
    if identifier is not None:
        exercise, tasks = find(course, identifier)
        identifier = tasks[0].id if len(tasks) == 1 else exercise.id
    command = [sys.executable, "-m", "grading.runner.watch", *([identifier] if identifier else [])]
    try:
        return subprocess.run(command, cwd=course.root, check=False).returncode
    except KeyboardInterrupt:
        return 0
