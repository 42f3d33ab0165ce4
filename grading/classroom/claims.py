"""The points of a course that rest on a claim, as the instructor guide shows them."""

from __future__ import annotations

from operator import attrgetter

from profiling_lab.course.manifest import Course

KINDS = (attrgetter("core"), attrgetter("live"))


def table(course: Course) -> str:
    """A row an exercise with its tasks of trust "claim", live and further ones in brackets, and a sum."""
    lines = ["| exercise | tasks | points | live points |", "|---|---|---|---|"]
    sums = [0, 0]
    for exercise in course.exercises:
        tasks = [task for task in exercise.tasks if task.trust == "claim"]
        if not tasks:
            continue
        names = [f"({task.name})" if not task.core else task.name for task in tasks]
        points = [sum(t.points for t in tasks if kind(t)) for kind in KINDS]
        sums = [have + more for have, more in zip(sums, points, strict=True)]
        lines.append(f"| {exercise.id} | {', '.join(names)} | {points[0]} | {points[1]} |")
    whole = [sum(t.points for t in course.tasks.values() if kind(t)) for kind in KINDS]
    lines.append(f"| all | | {sums[0]} of {whole[0]} | {sums[1]} of {whole[1]} |")
    return "\n".join(lines) + "\n"
