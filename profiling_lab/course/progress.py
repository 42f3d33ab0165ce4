"""What the learner has done so far: the last verdict on each task, kept in `.lab/progress.json`.

A verdict holds as long as what it judged is unchanged: for a function its code and what that rests on,
for a CUDA task the whole file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from profiling_lab.course import lab_folder
from profiling_lab.course.closure import closure_hash
from profiling_lab.course.manifest import Course, Task, is_todo, source_hash

FILE = "progress.json"  # in .lab


@dataclass(frozen=True)
class Verdict:
    """outcome: "passed", "failed", "todo", "blocked", "not run" or "unchecked" (changed since)."""

    outcome: str
    message: str = ""


def _judged(course: Course, task: Task, sources: dict[Path, str]) -> str:
    """A hash of what a verdict on a task rests on; `sources` keeps files that were read."""
    file = course.root / task.stub
    if task.is_cuda:
        return source_hash(file)
    try:
        if file not in sources:
            sources[file] = file.read_text(encoding="utf-8", errors="replace")
        return closure_hash(sources[file], task.name)
    except OSError:
        return source_hash(file)


def update(
    course: Course, outcomes: dict[str, tuple[str, list[str]]], *, complete: set[str]
) -> None:
    """Keep the outcomes of a run: {task: (outcome, [first message])}; only tasks in `complete`."""
    state = lab_folder.read(course.root, FILE)
    sources: dict[Path, str] = {}
    for identifier, (outcome, messages) in outcomes.items():
        if identifier in complete:
            state[identifier] = {
                "outcome": outcome,
                "message": messages[0] if messages else "",
                "source": _judged(course, course.tasks[identifier], sources),
            }
    lab_folder.write(course.root, FILE, state)


def verdicts(course: Course) -> dict[str, Verdict]:
    """The state of every task of the course, by id."""
    state = lab_folder.read(course.root, FILE)
    sources: dict[Path, str] = {}
    out = {}
    for identifier, task in course.tasks.items():
        if is_todo(task, course.root):
            out[identifier] = Verdict("todo")
            continue
        known = state.get(identifier)
        if known is None or known.get("source") != _judged(course, task, sources):
            out[identifier] = Verdict("unchecked")
        else:
            out[identifier] = Verdict(known["outcome"], known["message"])
    return out


def points(course: Course, verdicts: Mapping[str, Verdict]) -> str:
    """The points so far, in words; those of further tasks apart, once there are some."""
    passed = [task for task in course.tasks.values() if verdicts[task.id].outcome == "passed"]
    earned = sum(task.points for task in passed if task.core)
    further = sum(task.points for task in passed if task.further and not task.live)
    total = sum(exercise.points for exercise in course.exercises)
    return f"{earned} of {total} points" + (f", {further} further" if further else "")


def ahead(tasks: Iterable[Task], verdicts: Mapping[str, Verdict], can: Iterable[str]) -> list[Task]:
    """The tasks to go on with: what is begun and has not passed, then the core to do, then the further.

    can: what this machine has. Each group stands in the order of `tasks`; live tasks are no next step.
    """
    can = frozenset(can)
    here = [task for task in tasks if not task.live and task.needs <= can]
    begun = [task for task in here if verdicts[task.id].outcome in ("failed", "unchecked")]
    to_do = [task for task in here if verdicts[task.id].outcome in ("todo", "blocked")]
    return begun + sorted(to_do, key=lambda task: task.further)
