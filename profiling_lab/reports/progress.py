"""The progress page: what of the course is done, what is next, and the commands for it.

    >>> write_progress("lab-progress.html", course, progress.verdicts(course), steps)

It reads verdicts and predictions that were kept; nothing is checked, and no timeline is opened.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from profiling_lab.course import predictions
from profiling_lab.course.manifest import Course, Exercise, Task
from profiling_lab.course.progress import Verdict, ahead
from profiling_lab.reports.model import clean_text
from profiling_lab.reports.page import render, write

LAB = "uv run lab"
# The checklist of week07/README.md, and the tasks (or patterns of their ids) that show each point; a test
# holds the two together.
CHECKLIST: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "I can record a program with Nsight Systems and say why I chose each option.",
        ("ex_30.nsys_command",),
    ),
    (
        "I can compute busy time, gaps and the cost of launches from a capture, and defend each definition.",
        ("ex_30.busy_time", "ex_30.idle_gaps", "ex_30.recoverable_time"),
    ),
    (
        "I can analyse a kernel with Nsight Compute.",
        ("ex_31.choose_counters", "ex_31.classify_kernel"),
    ),
    (
        "I can profile a model with the PyTorch profiler.",
        ("ex_32.profile_steps", "ex_32.synchronizing_calls"),
    ),
    (
        "I can name a bottleneck with the evidence for it.",
        ("ex_30.name_bottleneck", "ex_31.classify_kernel", "ex_32.name_trace_bottleneck"),
    ),
    (
        "I can optimize from a profile and show the gain.",
        (
            "ex_30.pipeline_schedule",
            "ex_31.transpose_block",
            "ex_34.pipeline_optimized",
            "ex_34.evidence_verdict",
        ),
    ),
    (
        "I can analyse end-to-end latency.",
        ("ex_34.percentile", "ex_34.latency_from_intended"),
    ),
    (
        "I can explain the trade-off between throughput and latency.",
        ("ex_34.best_batch",),
    ),
    (
        "I can reach a verdict when I have only a recording, even when the program is healthy.",
        ("ex_30.name_bottleneck", "ex_32.name_trace_bottleneck"),
    ),
    ("I have prepared a technical deep dive.", ("ex_34.deep_dive",)),
)
GROUPS = {"week07": "The week", "labs": "Labs", "modules": "Modules"}
# Outcome: (a sign, words). The words are read out, the sign is for the eye.
OUTCOMES = {
    "passed": ("✓", "passed"),
    "failed": ("✗", "failed"),
    "unchecked": ("…", "changed since the last check"),
    "blocked": ("⊘", "needs another task first"),
    "not run": ("–", "not run here"),
    "todo": ("○", "to do"),
}


@dataclass(frozen=True)
class Step:
    """A task to go on with, and where its lesson and its file lie, as typed from the course's root."""

    task: Task
    lesson: str
    stub: str


def steps(
    course: Course, verdicts: Mapping[str, Verdict], can: Iterable[str], count: int = 3
) -> list[Step]:
    """What to do next: the first of `ahead`. can: what this machine has (`doctor.capabilities`)."""
    out = []
    for task in ahead(course.tasks.values(), verdicts, can)[:count]:
        lesson = course.lesson(course.exercise(task.exercise)).relative_to(course.root)
        out.append(Step(task, lesson.as_posix(), task.stub.as_posix()))
    return out


def write_progress(
    path: str | os.PathLike[str],
    course: Course,
    verdicts: Mapping[str, Verdict],
    following: Sequence[Step],
    waiting: str = "",
) -> Path:
    """Write the page to `path` and return the path. Raises OSError where it cannot be written."""
    return write(path, render_progress(course, verdicts, following, waiting, Path(path).parent))


def render_progress(
    course: Course,
    verdicts: Mapping[str, Verdict],
    following: Sequence[Step],
    waiting: str = "",
    folder: Path | None = None,
) -> str:
    """The page as text. waiting: what runs here once something is installed, in words.

    folder: where the page will lie, so that lessons and stubs are links; None for a page without.
    """
    core = [task for task in course.tasks.values() if task.core]
    further = [task for task in course.tasks.values() if task.further and not task.live]
    live = [task for task in course.tasks.values() if task.live]
    told = predictions.outcomes(course.root)
    groups: dict[str, list[dict[str, Any]]] = {}
    for exercise in course.exercises:
        top = exercise.folder.parts[0]
        link = _link(course, exercise.folder.as_posix(), folder)
        groups.setdefault(GROUPS.get(top, top), []).append(
            {**_exercise(exercise, verdicts), "link": link}
        )
    return render(
        "progress.html.j2",
        ["theme.js"],
        ["report.css"],
        title=clean_text(course.title),
        score=_score(core, verdicts),
        further=_score(further, verdicts),
        live=_score(live, verdicts),
        checklist=[
            _item(text, tasks, verdicts)
            for text, patterns in CHECKLIST
            if (tasks := _matching(course, patterns))
        ],
        waiting=waiting,
        predicted=[_predicted(outcome) for outcome in told],
        calibration=predictions.calibration(told),
        steps=[_step(course, step, verdicts[step.task.id], folder) for step in following],
        groups=groups,
        unfolded=following[0].task.exercise if following else "",
        lab=LAB,
    )


def _score(tasks: Sequence[Task], verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    passed = [task for task in tasks if verdicts[task.id].outcome == "passed"]
    earned, possible = sum(t.points for t in passed), sum(t.points for t in tasks)
    return {
        "earned": earned,
        "possible": possible,
        "passed": len(passed),
        "tasks": len(tasks),
        "pct": 100 * earned / possible if possible else 0.0,
    }


def _predicted(outcome: predictions.Outcome) -> dict[str, Any]:
    """A prediction as a row, and its places on an axis from -25 % to 100 %, in percent of the axis."""

    def place(pct: float) -> float:
        return (max(pct, -25.0) + 25) / 1.25

    return {
        "name": outcome.name,
        "low": f"{outcome.low_pct:g}",
        "high": f"{outcome.high_pct:g}",
        "measured": f"{outcome.measured_pct:.1f}",
        "holds": outcome.holds,
        "left": place(outcome.low_pct),
        "width": place(outcome.high_pct) - place(outcome.low_pct),
        "at": place(outcome.measured_pct),
    }


def _matching(course: Course, patterns: Sequence[str]) -> list[str]:
    return [task for pattern in patterns for task in fnmatch.filter(course.tasks, pattern)]


def _item(text: str, tasks: Sequence[str], verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    open_tasks = [task for task in tasks if verdicts[task].outcome != "passed"]
    return {
        "text": text,
        "done": not open_tasks,
        "passed": len(tasks) - len(open_tasks),
        "tasks": len(tasks),
        "open": open_tasks,
    }


def _link(course: Course, place: str, folder: Path | None) -> str:
    """Where a file of the course lies, as a page in a folder links it; "" for a page without a folder."""
    if folder is None:
        return ""
    try:
        return quote(Path(os.path.relpath(course.root / place, folder.resolve())).as_posix())
    except ValueError:  # on another drive
        return (course.root / place).resolve().as_uri()


def _step(course: Course, step: Step, verdict: Verdict, folder: Path | None) -> dict[str, Any]:
    task = step.task
    writes = f"{'the TODO' if task.is_cuda else task.name} in {step.stub}"
    rows = [
        ("Read", step.lesson, False, _link(course, step.lesson, folder)),
        ("Write", writes, False, _link(course, step.stub, folder)),
        ("Check", f"{LAB} check {task.id}", True, ""),
        ("Stuck?", f"{LAB} hint {task.id}", True, ""),
    ]
    return {
        "id": task.id,
        "title": clean_text(task.title),
        "points": task.points,
        "said": OUTCOMES[verdict.outcome][1],
        "message": clean_text(" ".join(verdict.message.split()), 400),
        "rows": rows[2:] if verdict.outcome == "unchecked" else rows,
    }


def _exercise(exercise: Exercise, verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    score = _score([task for task in exercise.tasks if task.core], verdicts)
    rows = []
    for task in sorted(exercise.tasks, key=lambda task: task.further):
        verdict = verdicts[task.id]
        sign, words = OUTCOMES[verdict.outcome]
        rows.append(
            {
                "id": task.id,
                "title": clean_text(task.title),
                "points": task.points,
                "live": task.live,
                "further": task.further,
                "needs": ", ".join(sorted(task.needs)),
                "outcome": verdict.outcome.replace(" ", "-"),
                "sign": sign,
                "words": words,
                "message": clean_text(" ".join(verdict.message.split()), 300)
                if verdict.outcome == "failed"
                else "",
            }
        )
    return {
        "id": exercise.id,
        "title": clean_text(exercise.title),
        "folder": exercise.folder.as_posix(),
        "minutes": exercise.minutes,
        "difficulty": exercise.difficulty,
        "score": score,
        "tasks": rows,
    }
