"""`lab reset` and `update`: fresh stubs in the place of the learner's files, after a backup."""

from __future__ import annotations

import ast
import shutil
import subprocess
import tomllib
from datetime import datetime
from pathlib import Path

import click

from profiling_lab.atomic_files import replaced
from profiling_lab.cli.screen import LAB, dim, find, load_course, short
from profiling_lab.course import lab_folder, stubs
from profiling_lab.course.manifest import (
    HANDED_OUT,
    MANIFEST,
    SOLUTIONS,
    Course,
    Exercise,
    Task,
    source_hash,
)
from profiling_lab.errors import CourseError, LabError

BACKUPS = Path(".lab") / "backups"
GENERATED = "stubs.json"  # in .lab: hashes of generated stubs, by path
OLD_VERSIONS = 200  # how many commits of a reference are looked through


# -- reset --------------------------------------------------------------------------------------


@click.command()
@click.argument("identifier", metavar="ID[.TASK]")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def reset(identifier: str, yes: bool) -> int:
    """Start an exercise, or one function of it, again; what you have is backed up first.

    A task that your file does not have yet (it came with an update) is added to it.

    \b
      uv run lab reset ex_30.busy_time
      uv run lab reset ex_30 --yes
    """
    course = load_course()
    exercise, tasks = find(course, identifier)
    fresh = stubs.generate(course, exercise)
    single = len(tasks) == 1 and len(exercise.tasks) > 1
    if single and not tasks[0].is_cuda:
        file = course.root / tasks[0].stub
        fresh = {file: _replaced(file, fresh[file], tasks[0])}
    elif single:
        file = course.root / tasks[0].stub
        fresh = {file: fresh[file]}
    changed = {file: text for file, text in fresh.items() if _text(file) != text}
    if not changed:
        click.echo(f"{identifier} is as it was at the start already.")
        return 0
    if not yes:
        names = ", ".join(short(file) for file in changed)
        what = f"{tasks[0].name} in {names}" if single and not tasks[0].is_cuda else names
        click.confirm(f"Start {what} again? A backup is kept.", abort=True)
    folder = back_up(course, list(changed))
    for file, text in changed.items():
        _write(file, text)
        click.echo(f"reset  {short(file)}")
    if folder is not None:
        click.echo(f"backup {short(folder)}")
    remember_generated(course, exercise)
    click.echo(f"Next:  {LAB} hint {tasks[0].id if single else exercise.id}")
    return 0


def _replaced(file: Path, fresh: str, task: Task) -> str:
    """The learner's file with one function as in the fresh stub; added where it is missing."""
    current = _text(file)
    if current is None:
        return fresh
    new = function_lines(fresh, task.name)
    if new is None:
        raise CourseError(f"{task.id}: the generated stub does not define it")
    try:
        old = function_lines(current, task.name)
    except SyntaxError as error:
        raise LabError(
            f"{short(file)}, line {error.lineno}: {error.msg}; fix it, or start the whole file "
            f"again: {LAB} reset {task.exercise}"
        ) from None
    body = "\n".join(fresh.splitlines()[new[0] - 1 : new[1]])
    lines = current.splitlines()
    if old is None:
        return current.rstrip("\n") + "\n\n\n" + body + "\n"
    return "\n".join([*lines[: old[0] - 1], body, *lines[old[1] :]]) + "\n"


def function_lines(source: str, name: str) -> tuple[int, int] | None:
    """First and last line of a top-level function (the last of that name), from 1."""
    found = None
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found = (first, node.end_lineno or node.lineno)
    return found


def back_up(course: Course, files: list[Path]) -> Path | None:
    """Copy files into a new dated folder of .lab/backups; None if there was nothing to copy."""
    present = [file for file in files if file.is_file()]
    if not present:
        return None
    stamp = datetime.now().astimezone().strftime("%Y-%m-%d_%H%M%S")
    folder = course.root / BACKUPS / stamp
    number = 1
    while folder.exists():
        number += 1
        folder = course.root / BACKUPS / f"{stamp}_{number}"
    for file in present:
        target = folder / file.relative_to(course.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    return folder


# -- update -------------------------------------------------------------------------------------


@click.command()
def update() -> int:
    """After pulling a new version of the course: refresh the files you have not touched.

    A file is untouched if it equals a stub that the course generated, now or earlier. What you
    edited is kept as it is; tasks that it lacks are named, with the command that adds them.
    """
    course = load_course()
    known = _known(course)
    files: dict[Path, tuple[Exercise, str]] = {}
    for exercise in course.exercises:
        for file, text in stubs.generate(course, exercise).items():
            files[file] = (exercise, text)
    replaced, kept, same = [], [], []
    for file, (exercise, text) in files.items():
        current = _text(file)
        if current == text:
            same.append(file)
        elif current is None or _is_untouched(course, exercise, file, known):
            replaced.append(file)
        else:
            kept.append(file)
    folder = back_up(course, replaced)
    for file in replaced:
        existed = file.is_file()
        _write(file, files[file][1])
        click.echo(f"{'refreshed' if existed else 'added':<10} {short(file)}")
    for file in same:
        click.echo(dim(f"{'current':<10} {short(file)}"))
    for file in kept:
        exercise, text = files[file]
        click.echo(click.style(f"{'kept':<10} {short(file)}", fg="green") + "  (you edited it)")
        _tell_differences(exercise, file, text)
    if folder is not None:
        click.echo(f"backup     {short(folder)}")
    for exercise in course.exercises:
        remember_generated(course, exercise)
    click.echo(f"Next: {LAB}")
    return 0


def _tell_differences(exercise: Exercise, file: Path, fresh: str) -> None:
    """Name the tasks that an edited file lacks, and those whose contract changed."""
    if file.suffix != ".py":
        return
    try:
        mine = _contracts(_text(file) or "")
    except SyntaxError as error:
        click.echo(f"           line {error.lineno}: {error.msg}; fix it, then update again")
        return
    for name, contract in _contracts(fresh).items():
        task = next((task for task in exercise.tasks if task.name == name), None)
        if task is None or task.is_cuda:
            continue
        if name not in mine:
            click.echo(f"           lacks {name}; add it: {LAB} reset {task.id}")
        elif mine[name] != contract:
            click.echo(f"           the contract of {name} changed: compare with")
            click.echo(f"           {LAB} dev stub {exercise.id} --print {name}")


def _contracts(source: str) -> dict[str, tuple[str, str]]:
    """Signature and docstring of every top-level function."""
    return {
        node.name: (ast.unparse(node.args), ast.get_docstring(node) or "")
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }


def _known(course: Course) -> dict[str, list[str]]:
    """Hashes of the stubs that were generated here earlier, by path."""
    try:
        data = lab_folder.read(course.root, GENERATED)
        return {key: [str(item) for item in value] for key, value in data.items()}
    except TypeError:
        return {}


def remember_generated(course: Course, exercise: Exercise) -> None:
    """Note the hashes of files that are the generated stub at present, for a later update."""
    known = _known(course)
    for file, text in stubs.generate(course, exercise).items():
        if _text(file) == text:
            entry = known.setdefault(_inside(course, file), [])
            if (digest := source_hash(file)) not in entry:
                entry.append(digest)
    lab_folder.write(course.root, GENERATED, known)


def _inside(course: Course, file: Path) -> str:
    return file.relative_to(course.root).as_posix()


def _is_untouched(
    course: Course, exercise: Exercise, file: Path, known: dict[str, list[str]]
) -> bool:
    """Whether a file equals a stub generated earlier: noted here, or from the git history.

    Comparing with the history of the file itself would not do: there a learner's own commits are.
    """
    if source_hash(file) in known.get(_inside(course, file), []):
        return True
    current = _text(file)
    inside = _inside(course, file)
    if not course.has_references:
        old = f"{HANDED_OUT}/{inside}"
        revisions = _git_lines(course, "rev-list", f"--max-count={OLD_VERSIONS}", "HEAD", "--", old)
        return any(_git(course, "show", f"{revision}:{old}") == current for revision in revisions)
    for revision in _git_lines(
        course, "rev-list", f"--max-count={OLD_VERSIONS}", "HEAD", "--",
        f"{SOLUTIONS}/{inside}", MANIFEST,
    ):  # fmt: skip
        reference = _git(course, "show", f"{revision}:{SOLUTIONS}/{inside}")
        listing = _git(course, "show", f"{revision}:{MANIFEST}")
        if reference is None or listing is None:
            continue
        try:
            if file.suffix == ".py":
                old = stubs.python_stub(reference, _tasks_then(listing, exercise, inside))
            else:
                old = stubs.region_stub(reference)
        except (CourseError, SyntaxError):
            continue
        if old == current:
            return True
    return False


def _tasks_then(listing: str, exercise: Exercise, inside: str) -> set[str]:
    """The names of an exercise's tasks in an earlier manifest that are functions of its stub."""
    try:
        tables = tomllib.loads(listing)["exercises"]
        table = next(table for table in tables if table["id"] == exercise.id)
        return {task["name"] for task in table["tasks"] if "stub" not in task}
    except (tomllib.TOMLDecodeError, KeyError, StopIteration, TypeError):
        return set()


def _git(course: Course, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=course.root,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def _git_lines(course: Course, *arguments: str) -> list[str]:
    return (_git(course, *arguments) or "").split()


def _text(file: Path) -> str | None:
    """The text of a file with \\n line ends; None if it is not there."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LabError(f"{file}: cannot be read ({error.strerror})") from None


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with replaced(file) as draft:
            draft.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise LabError(f"{file}: cannot be written ({error.strerror})") from None
