"""`lab dev`: add an exercise, generate its stubs, prove it; hand the course out to a class."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import click

from profiling_lab.cli import skeleton
from profiling_lab.cli.app import complain
from profiling_lab.cli.proving import NO_CHECKS_COLLECTED, own_words, parts, read, run_proof
from profiling_lab.cli.screen import LAB, bold, find, load_course, note_while, short, wrap
from profiling_lab.cli.work import back_up, function_lines
from profiling_lab.course import stubs
from profiling_lab.course.manifest import MANIFEST
from profiling_lab.errors import CourseError, LabError

GUIDE = "docs/instructor-guide.md"


@click.group()
def dev() -> None:
    """For authors and instructors: add an exercise, prove it, hand the course out to a class.

    \b
      uv run lab dev new ex_35 --folder week07/day6_more
      uv run lab dev stub ex_35
      uv run lab dev check ex_35
      uv run lab dev class-repo ../my_class
    """


# -- new ----------------------------------------------------------------------------------------


@dev.command()
@click.argument("identifier", metavar="ID")
@click.option("--folder", required=True, help="The folder of the exercise inside a tree.")
@click.option("--name", help="The stub's file name without .py; ID by default.")
@click.option("--title", default="A question?", show_default=True)
@click.option("--task", "task", default="first_task", show_default=True, help="Its first task.")
@click.option("--about", default="What the task is about", help="The task's title.")
@click.option("--skill", default="say what the learner can do afterwards")
@click.option("--points", default=1, show_default=True, help="Of the task.")
def new(
    identifier: str,
    folder: str,
    name: str | None,
    title: str,
    task: str,
    about: str,
    skill: str,
    points: int,
) -> int:
    """A skeleton of the five parts: lesson, stub, hints, checks, reference with mistakes.

    Adds the exercise to the manifest too, after those of its folder. Every part runs as it is, and `lab dev check ID` passes;
    replace the example part by part.
    """
    course = load_course()
    name = name or identifier
    inside = PurePosixPath(folder.replace(os.sep, "/").strip("/"))
    for label, text in (("ID", identifier), ("--task", task), ("--name", name)):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", text):
            raise LabError(f"{label} {text}: use lower-case letters, digits and underscores only")
    if any(exercise.id == identifier for exercise in course.exercises):
        raise CourseError(f"{identifier}: is in {MANIFEST} already")
    if inside.is_absolute() or ".." in inside.parts or not inside.parts:
        raise LabError(f"--folder {folder}: name a folder inside the course, such as week07/day6")
    words = {"id": identifier, "name": name, "title": title, "task": task, "folder": str(inside)}
    words |= {"about": about, "skill": skill, "points": str(points)}
    files = {course.root / path: text for path, text in skeleton.texts(words).items()}
    lesson = course.root / inside / "README.md"
    source = course.root / "scripts" / "lesson_sources" / inside / "README.md"
    if lesson.exists() and not source.exists():
        del files[source]  # a page that nothing computes
    shared = {file for file in files if file.suffix == ".md"}
    if there := [short(file) for file in files if file.exists() and file not in shared]:
        raise CourseError(f"{', '.join(there)}: there already; nothing was written")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        if before := read(file):  # another exercise of the folder shares its lesson and its hints
            text = f"{before.rstrip()}\n\n{skeleton.as_section(text)}"
        file.write_text(text, encoding="utf-8", newline="\n")
    manifest = course.root / MANIFEST
    text = skeleton.in_order(
        course, manifest.read_text(encoding="utf-8"), inside, skeleton.table(words)
    )
    tomllib.loads(text)
    manifest.write_text(text, encoding="utf-8", newline="\n")
    course = load_course()
    files |= stubs.generate(course, course.exercise(identifier))
    for file, content in stubs.generate(course, course.exercise(identifier)).items():
        file.write_text(content, encoding="utf-8", newline="\n")
    for file in files:
        click.echo(f"new      {short(file)}")
    click.echo(f"changed  {short(manifest)}")
    if (course.root / GUIDE).is_file():  # it lists all points
        lessons = [
            sys.executable,
            str(course.root / "scripts" / "lessons.py"),
            "--write",
            GUIDE,
            str(lesson),
        ]
        subprocess.run(lessons, cwd=course.root, check=True, stdout=subprocess.DEVNULL)
        click.echo(f"changed  {GUIDE}")
    click.echo(f"Next: {LAB} dev check {identifier}; then replace the example part by part")
    return 0


# -- stub ---------------------------------------------------------------------------------------


@dev.command()
@click.argument("identifier", metavar="ID")
@click.option(
    "--check", "check_only", is_flag=True, help="Write nothing; exit with 1 if one differs."
)
@click.option("--print", "print_name", metavar="FUNCTION", help="Print one function's stub only.")
def stub(identifier: str, check_only: bool, print_name: str | None) -> int:
    """Generate an exercise's stubs from its reference.

    Overwrites the stubs in place: meant for authors. Learners use `lab reset`, which asks first and
    keeps a backup.
    """
    course = load_course()
    exercise, _ = find(course, identifier)
    fresh = stubs.generate(course, exercise)
    if print_name is not None:
        return _print_stub(fresh, print_name)
    differing = [file for file, text in fresh.items() if read(file) != text]
    if check_only:
        for file in differing:
            click.echo(f"differs  {short(file)}")
        if differing:
            return complain(f"generate them: {LAB} dev stub {exercise.id}", code=1)
        click.echo(f"{exercise.id}: its {len(fresh)} stubs are as generated")
        return 0
    folder = back_up(course, differing)
    for file, text in fresh.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        if file in differing:
            file.write_text(text, encoding="utf-8", newline="\n")
        click.echo(f"{'written' if file in differing else 'current'}  {short(file)}")
    if folder is not None:
        click.echo(f"backup   {short(folder)}")
    return 0


def _print_stub(fresh: dict[Path, str], name: str) -> int:
    for file, text in fresh.items():
        lines = function_lines(text, name) if file.suffix == ".py" else None
        if lines is not None:
            click.echo("\n".join(text.splitlines()[lines[0] - 1 : lines[1]]))
            return 0
    raise CourseError(f"{name}: no stub defines it")


# -- check --------------------------------------------------------------------------------------


@dev.command()
@click.argument("identifier", metavar="ID")
@click.option("--verbose", "-v", is_flag=True, help="Show pytest's whole output.")
def check(identifier: str, verbose: bool) -> int:
    """Prove one exercise: its five parts, and what each proof costs in seconds.

    The stubs are generated and todo, and the reference passes. Every mistake is caught by the check
    meant for it, with the expected words. Verdicts in a separate process are the same. It also proves
    what a change to the exercise can break elsewhere: pages, figures and notebooks that show its
    results, totals of the manifest in lists and guides, contracts of the library, the class repository
    without its answers.

    The mutation test, which takes minutes, is left for the end:

    \b
      uv run --group authors python -m grading.proof.mutation ID
    """
    course = load_course()
    exercise, _ = find(course, identifier)
    if not course.has_references:
        raise CourseError(
            f"{exercise.id}: there are no references in this copy of the course to prove it with; "
            f"its checks run on your own work: {LAB} check {exercise.id}"
        )
    bad = 0
    click.echo(bold(f"{exercise.id}  {exercise.title}"))
    for part, problem in parts(course, exercise):
        bad += bool(problem)
        _report(part, not problem, None, problem)
    with note_while("running the proof"):
        started = time.perf_counter()
        groups, output, code = run_proof(course, exercise)
        wall_s = time.perf_counter() - started
    for name, cases in groups.items():
        failed = [case for case in cases if case[2]]
        count = f"{len(cases) - len(failed)} of {len(cases)}"
        seconds = sum(case[1] for case in cases)
        _report(name, not failed, seconds, count)
        for case, _, message in failed:
            first, *more = own_words(message) or ["failed"]
            click.echo(wrap(f"{case}: {first}", "         ", "       "))
            for line in more:
                click.echo(wrap(line, "         ", "         "))
        bad += len(failed)
    if verbose or (code not in (0, 1) and not groups):
        click.echo(output)
    click.echo(f"  {'in all':<52} {wall_s:>7.2f} s")
    if code not in (0, 1, NO_CHECKS_COLLECTED):
        return complain(f"the proof did not run to its end (pytest's exit code {code}); add -v")
    if not groups:
        return complain(f"no check and no proof ran for {exercise.id}; add -v", code=1)
    if not bad and "Not run: " in output and code == 1:
        for line in output[output.index("Not run: ") :].splitlines()[:2]:
            click.echo(wrap(line, "      ", "  "))
        return complain(f"{exercise.id}: what was not run proves nothing; install it", code=1)
    if bad or code == 1:
        return complain(f"{exercise.id} is not proven; fix what is marked above", code=1)
    click.echo(f"{exercise.id} is proven, but for the mutation test:")
    click.echo(f"  uv run --group authors python -m grading.proof.mutation {exercise.id}")
    return 0


def _report(what: str, good: bool, seconds: float | None, note: str) -> None:
    mark = click.style("ok  ", fg="green") if good else click.style("FAIL", fg="red")
    cost = "" if seconds is None else f"{seconds:>7.2f} s"
    brief = note if len(note) <= 14 else ""
    click.echo(f"  {mark} {what[:46]:<46} {cost:>9}  {brief}".rstrip())
    if note and not brief:
        click.echo(wrap(note, "       "))


# -- for a class --------------------------------------------------------------------------------

_exercise = click.option(
    "--exercise", "exercises", multiple=True, metavar="ID", help="Only this one; several times."
)
_title = click.option("--title", default="", help="The course's own by default.")


@dev.command("class-repo")
@click.argument("folder", metavar="DIR")
@_exercise
@_title
@click.option("--due", default="", metavar="TIME", help="Say 2026-12-04T23:59+01:00.")
@click.option("--update", is_flag=True, help="Bring the class repository in DIR up to date.")
@click.option("--no-git", is_flag=True, help="The folder alone, without a repository.")
@click.option("--no-engine", is_flag=True, help="Without the engine behind lab diagnose.")
def class_repo(
    folder: str,
    exercises: tuple[str, ...],
    title: str,
    due: str,
    update: bool,
    no_git: bool,
    no_engine: bool,
) -> int:
    """A repository for students: the course without references and other answers.

    In it lab, the checks and grading work. The same course gives the same commit.

    \b
      uv run lab dev class-repo ../profiling_2026 --due 2026-12-04T23:59+01:00
      uv run lab dev class-repo ../day_one --exercise ex_30 --title "Day 1"
      uv run lab dev class-repo ../day_one --update
    """
    options = {"--title": title, "--due": due, "--update": update, "--no-git": no_git}
    options |= {"--no-engine": no_engine}
    return _hand_out("class-repo", folder, exercises, options)


@dev.command("github-classroom")
@click.argument("folder", metavar="DIR")
def github_classroom(folder: str) -> int:
    """Add to the class repository in DIR the workflow that reports points to GitHub Classroom."""
    return _hand_out("github-classroom", folder)


@dev.command("gradescope")
@click.argument("file", metavar="FILE.zip")
@_exercise
@_title
@click.option("--policy", metavar="FILE", help="Weights, deadline, hidden checks.")
@click.option("--cases", metavar="DIR", help="Further, private cases.")
@click.option(
    "--seed", metavar="N", help="Seed of the inputs that checks generate; by default drawn now."
)
@click.option("--timeout-s", metavar="N", help="For one submission; below the limit set there.")
@click.option(
    "--unprotected",
    default="",
    metavar="WORDS",
    help="As for grade: run without a sandbox if none works there.",
)
def gradescope(file: str, exercises: tuple[str, ...], **options: str | None) -> int:
    """Build the zip to upload as Gradescope's autograder."""
    for name in ("policy", "cases"):
        if value := options[name]:
            options[name] = os.path.abspath(value)
    named = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    return _hand_out("gradescope", file, exercises, named)


def _hand_out(
    command: str,
    place: str,
    exercises: tuple[str, ...] = (),
    options: Mapping[str, str | bool | None] | None = None,
) -> int:
    """Run a command of `grading.classroom`, which the library may not import."""
    course = load_course()
    words = [sys.executable, "-m", "grading.classroom", command, os.path.abspath(place)]
    for exercise in exercises:
        words += ["--exercise", exercise]
    for option, value in (options or {}).items():
        if value:
            words += [option] if value is True else [option, str(value)]
    sys.stdout.flush()
    return subprocess.run(words, cwd=course.root, check=False).returncode
