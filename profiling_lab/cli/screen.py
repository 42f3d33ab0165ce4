"""Small helpers for what is printed: paths, bars, wrapped text, and ids as people type them."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import click

from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course, Exercise, Task

LAB = "uv run lab"
WIDTH = 80  # where there is no terminal


def width() -> int:
    """The width to print in: the terminal's, 80 where there is none, never more than 100."""
    return max(40, min(shutil.get_terminal_size((WIDTH, 24)).columns, 100))


def short(path: Path) -> str:
    """A path as a person would type it from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        pass
    relative = os.path.relpath(path) if path.drive == Path.cwd().drive else str(path)
    return min(str(path), relative, key=len)


def bar(share: float, cells: int = 10) -> str:
    """A share of 0 to 1 as a bar; what is not nothing shows at least one cell."""
    full, empty = ("█", "░") if can_print("█░") else ("#", ".")
    count = round(share * cells)
    if share > 0:
        count = max(1, count)
    if share < 0.9995:  # what is printed as 100.0 % fills the bar
        count = min(count, cells - 1)
    return full * count + empty * (cells - count)


def can_print(text: str) -> bool:
    """Whether standard output's encoding has these characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def wrap(text: str, indent: str = "", first: str | None = None) -> str:
    """Text in lines of the terminal's width."""
    return textwrap.fill(
        " ".join(text.split()),
        width(),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fitting(line: str) -> str:
    """A line as it is where it fits, else in several, indented as it is."""
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        line,
        width(),
        subsequent_indent=indent,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )


@contextlib.contextmanager
def note_while(what: str) -> Iterator[None]:
    """Say on the error stream what takes its time, if that is a terminal and it takes long."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    started = time.monotonic()

    def tell() -> None:
        if done.wait(0.7):
            return
        while True:
            seconds = time.monotonic() - started
            sys.stderr.write(f"\r{what} … {seconds:.0f} s "[: width()])
            sys.stderr.flush()
            if done.wait(1.0):
                sys.stderr.write("\r" + " " * (width() - 1) + "\r")
                sys.stderr.flush()
                return

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def bold(text: str) -> str:
    """Bold, where the output is a terminal."""
    return click.style(text, bold=True)


def dim(text: str) -> str:
    """Faint, where the output is a terminal."""
    return click.style(text, dim=True)


def find(course: Course, identifier: str) -> tuple[Exercise, list[Task]]:
    """The exercise and the tasks that an id means; a path of a stub and a bare task name will do.

    Raises UnknownExercise, naming what comes close.
    """
    for exercise in course.exercises:
        if identifier == exercise.id:
            return exercise, list(exercise.tasks)
    if identifier in course.tasks:
        task = course.tasks[identifier]
        return course.exercise(task.exercise), [task]
    named = [task for task in course.tasks.values() if task.name == identifier]
    if len(named) == 1:
        return course.exercise(named[0].exercise), named
    if os.path.exists(identifier):
        path = Path(identifier).resolve()
        for exercise in course.exercises:
            if path == course.root / exercise.folder:
                return exercise, list(exercise.tasks)
            if tasks := [task for task in exercise.tasks if course.root / task.stub == path]:
                return exercise, tasks
    course.task(identifier)
    raise AssertionError("course.task raises for what it does not know")


def load_course() -> Course:
    """The course around the current folder. Raises CourseError outside of one."""
    return manifest.load()
