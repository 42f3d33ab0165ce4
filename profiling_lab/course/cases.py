"""Recordings that a learner is to judge: the engine's verdict on one stays closed until the learner's is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from profiling_lab import captures
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Task
from profiling_lab.errors import CourseError, LabError

CASE = "case_"
EXERCISE = "case_files"


def open_task(places: Iterable[Path]) -> Task | None:
    """The task, still to do, that asks for a verdict on one of these recordings; None outside of the course."""
    try:
        course = manifest.load(manifest.find_root())
        folder = captures.folder().resolve()
    except (CourseError, LabError):
        return None
    for place in places:
        inside = place.resolve()
        if not inside.is_relative_to(folder) or inside == folder:
            continue
        name = inside.relative_to(folder).parts[0]
        stem = name.removeprefix(CASE).rpartition("_")[0]
        task = course.tasks.get(f"{EXERCISE}.verdict_{stem}") if name.startswith(CASE) else None
        if task is not None and manifest.is_todo(task, course.root):
            return task
    return None


def refuse(places: Iterable[Path]) -> None:
    """Raise LabError, which says what to do, for a recording whose verdict is still the learner's to find."""
    places = list(places)
    if task := open_task(places):
        name = next(part for part in places[0].parts if part.startswith(CASE))
        raise LabError(
            f"{name}: the engine keeps its verdict until yours is written: {task.name} in {task.stub}. "
            f"Look at the recording with lab report {name}"
        )
