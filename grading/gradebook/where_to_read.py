"""Where the course's own texts speak of a task: lesson section and hint."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from profiling_lab.cli.hints import hint_steps
from profiling_lab.course.manifest import Course, Task
from profiling_lab.errors import CourseError


class Guide:
    """Where the course's own texts speak of a task: lesson section and hint. Read once a task."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._found: dict[str, tuple[str, str]] = {}

    def lesson(self, task: Task) -> str:
        """The section of the lesson to read, as "FILE, section"; the file alone if none names it."""
        return self._of(task)[0]

    def question(self, task: Task) -> str:
        """The first, weakest hint, as one paragraph of Markdown; "" if there is none."""
        return self._of(task)[1]

    def _of(self, task: Task) -> tuple[str, str]:
        if task.id not in self._found:
            self._found[task.id] = (self._lesson(task), self._question(task))
        return self._found[task.id]

    def _lesson(self, task: Task) -> str:
        exercise = self.course.exercise(task.exercise)
        file = (exercise.folder / "README.md").as_posix()
        section = _section(_read(self.course.lesson(exercise)), task)
        return f"{file}, “{section}”" if section else file

    def _question(self, task: Task) -> str:
        try:
            first = hint_steps(self.course, task)[0]
        except (CourseError, IndexError):
            return ""
        return " ".join(first.split())


@functools.lru_cache(maxsize=64)
def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


def _section(lesson: str, task: Task) -> str:
    """The heading of the section that sets the task, else of the first that names it, else ""."""
    named = re.compile(rf"(?<!\w){re.escape(task.name)}(?!\w)")
    sets = re.compile(rf"lab check {re.escape(task.id)}\b|\*\*Write\*\*.*`{re.escape(task.name)}`")
    heading, first, in_code = "", "", False
    for line in lesson.splitlines():
        in_code ^= line.lstrip().startswith("```")
        if not in_code and (match := re.match(r"#{2,4} (.+)", line)):
            heading = match[1].strip().replace("`", "")
        elif sets.search(line):
            return heading
        elif not first and named.search(line):
            first = heading
    return first
