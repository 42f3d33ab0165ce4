"""The score of a run in words, for the end of pytest's output."""

from __future__ import annotations

from collections.abc import Mapping

from grading.runner.session import GradingSession
from profiling_lab import needs
from profiling_lab.cli.screen import fitting
from profiling_lab.course import progress
from profiling_lab.course.manifest import Exercise, Task

COLORS = {
    "todo": {"cyan": True},
    "blocked": {"yellow": True},
    "not run": {"light": True},
    "infrastructure": {"yellow": True},
}


def score_lines(grading: GradingSession) -> list[tuple[str, dict[str, bool]]]:
    """The score as lines of text with their style: a row a task, a sum an exercise, the next step."""
    lines: list[tuple[str, dict[str, bool]]] = []
    score = grading.score
    styles = {"passed": {"green": True}, "failed": {"red": True}, **COLORS}
    for exercise in score.exercises():
        lines.append((f"{exercise.id}  {exercise.title}", {"bold": True}))
        for task in exercise.tasks:
            result = score.results.get(task.id)
            if result is None:
                continue
            passed = sum(check.outcome == "passed" for check in result.checks)
            checks = f"{passed}/{len(result.checks)} checks"
            name = task.name + (" (live)" if task.live else " (further)" if task.further else "")
            outcome = result.outcome
            line = (
                f"  {name:<26} {outcome:<8} {result.earned:>2} of {task.points:>2} points  {checks}"
            )
            if task.id in grading.blocked_by:
                line += f"  needs {grading.blocked_by[task.id].split('.')[-1]}"
            lines.append((line, styles[outcome]))
            if outcome == "not run":
                reasons = dict.fromkeys(check.message for check in result.checks if check.message)
                lines += [(f"    {row}", {}) for text in reasons for row in text.splitlines()[:1]]
            if outcome == "todo" and task.is_cuda and not task.live and grading.is_begun(task):
                marker = f"TODO({task.id})"
                lines.append(
                    (f"    once it is written, remove its line {marker} in {task.stub.name}", {})
                )
    totals = score.totals()
    summary = f"{totals['earned']} of {totals['possible']} points gradable here"
    if totals["not_run"]:
        summary += f", {totals['not_run']} not run"
    further = score.totals(further=True)
    if further["possible"]:
        summary += f"; further: {further['earned']} of {further['possible']}"
    live = score.totals(live=True)
    if live["possible"]:
        summary += f"; live: {live['earned']} of {live['possible']}"
    elif live["not_run"]:
        summary += f"; {live['not_run']} live points not run"
    lines.append((summary, {"bold": True}))
    if grading.is_own:
        following, checked = score.next_task(), score.results.values()
        verdicts = progress.verdicts(grading.course)
        if following is not None and following.id in grading.blocked_by:
            following = grading.course.tasks[grading.blocked_by[following.id]]
        if following is None or (following.further and any(r.task.core for r in checked)):
            following = _next_in(grading, verdicts)
        if following is None:
            lines.append(("Next: uv run lab    (shows what else there is)", {}))
        else:
            exercise = grading.course.exercise(following.exercise)
            lesson = grading.show(grading.course.lesson(exercise))
            for done in score.exercises():
                left = following.core and following in done.tasks
                if not left and _core_is_done(grading, done, verdicts):
                    read = grading.show(grading.course.lesson(done))
                    told = f"Core of {done.id} done: read {read} up to its section Further"
                    lines.append((told, {"bold": True}))
            lines.append((f"Next: {following.id}, {following.title}", {}))
            lines.append(
                (f"      read {lesson}, write {following.name} in {following.stub.name}", {})
            )
            lines.append((f"      stuck? uv run lab hint {following.id}", {}))
    return [(row, style) for text, style in lines for row in fitting(text).splitlines()]


def _next_in(grading: GradingSession, verdicts: Mapping[str, progress.Verdict]) -> Task | None:
    """The next task of the exercises that were checked; as `lab` does, the core of others comes before further tasks.

    None if all of them have passed.
    """
    every = progress.ahead(grading.course.tasks.values(), verdicts, grading.capabilities)
    checked = {exercise.id for exercise in grading.score.exercises()}
    here = [task for task in every if task.exercise in checked]
    if here and here[0].further and verdicts[here[0].id].outcome in ("todo", "blocked"):
        here = every  # the core of all exercises comes before what is further
    return next(iter(here), None)


def _core_is_done(
    grading: GradingSession, exercise: Exercise, verdicts: Mapping[str, progress.Verdict]
) -> bool:
    """Whether an exercise has further tasks, and every core task of it that can run here has passed."""
    core = [t for t in exercise.tasks if t.core and t.needs <= grading.capabilities]
    further = any(task.further for task in exercise.tasks)
    return further and bool(core) and all(verdicts[task.id].outcome == "passed" for task in core)


def lacking_lines(grading: GradingSession) -> list[str]:
    """One line on all that was not run for want of something, with the command that brings it."""
    if not grading.lacking:
        return []
    tasks = sum(name in grading.course.tasks for name in grading.lacking)
    others = len(grading.lacking) - tasks
    counted = [f"{tasks} task{'s' * (tasks != 1)}"] * bool(tasks)
    counted += [f"{others} test{'s' * (others != 1)} of the course"] * bool(others)
    missing = frozenset().union(*grading.lacking.values())
    return [
        f"Not run: {' and '.join(counted)}, for want of {', '.join(sorted(missing))}",
        f"  {needs.remedy(missing)}",
    ]
