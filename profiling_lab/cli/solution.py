"""`lab solution`: the reference, once the learner's own passes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import click

from profiling_lab.cli.app import complain
from profiling_lab.cli.screen import LAB, dim, find, load_course, short
from profiling_lab.course import progress, stubs
from profiling_lab.course.manifest import (
    Course,
    Task,
)
from profiling_lab.errors import CourseError


@click.command()
@click.argument("identifier", metavar="ID[.TASK]")
@click.option("--path", "path_only", is_flag=True, help="Print the reference's path instead.")
def solution(identifier: str, path_only: bool) -> int:
    """Show the reference for a task or a whole exercise, once your own code passes.

    \b
      uv run lab solution ex_30.busy_time
      uv run lab solution ex_30 --path
    """
    course = load_course()
    _, tasks = find(course, identifier)
    verdicts = progress.verdicts(course)
    if len(tasks) > 1:
        tasks = [task for task in tasks if not task.live]
    missing = [task for task in tasks if verdicts[task.id].outcome != "passed"]
    if missing:
        return _not_yet(identifier, missing, verdicts)
    for file, chosen in _by_file(course, tasks).items():
        if path_only:
            click.echo(short(file))
            continue
        source = file.read_text(encoding="utf-8")
        if len(tasks) == 1 and not chosen[0].is_cuda:
            source = _with_helpers(source, chosen[0].name)
        click.echo(dim(f"# {short(file)}"))
        _print_code(source, "cuda" if chosen[0].is_cuda else "python")
    return 0


def _not_yet(identifier: str, missing: list[Task], verdicts: dict[str, progress.Verdict]) -> int:
    outcomes = {"unchecked": "not checked since it changed", "todo": "still to do"}
    first = missing[0]
    outcome = verdicts[first.id].outcome
    text = outcomes.get(outcome, outcome)
    step = "hint" if outcome in ("todo", "blocked") else "check"
    if len(missing) == 1:
        return complain(
            f"{first.id}: {text}; the reference shows after it passes: {LAB} {step} {first.id}",
            code=1,
        )
    names = ", ".join(task.name for task in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return complain(
        f"{identifier}: {len(missing)} tasks have not passed yet ({names}{more}); "
        f"single ones show with {LAB} solution ID.TASK; next: {LAB} {step} {first.id}",
        code=1,
    )


def _by_file(course: Course, tasks: list[Task]) -> dict[Path, list[Task]]:
    out: dict[Path, list[Task]] = {}
    for task in tasks:
        file = course.solution(task.stub)
        if not course.has_references:
            raise CourseError(
                f"{task.id}: this copy of the course comes without references; ask whoever gave it "
                "to you"
            )
        if not file.is_file():
            raise CourseError(f"{file}: the reference of {task.id} is missing")
        out.setdefault(file, []).append(task)
    return out


def _with_helpers(source: str, name: str) -> str:
    """A function with the private helpers that it uses, in the order of the file."""
    lines = source.splitlines()
    nodes = {bound: node for node in ast.parse(source).body for bound in stubs._names(node)}
    wanted, queue = set(), [name]
    while queue:
        current = queue.pop()
        if current in wanted or current not in nodes:
            continue
        wanted.add(current)
        used = {n.id for n in ast.walk(nodes[current]) if isinstance(n, ast.Name)}
        queue += [n for n in used if n.startswith("_") and not n.startswith("__")]
    chosen = dict.fromkeys(node for bound, node in nodes.items() if bound in wanted)
    blocks = []
    for node in chosen:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        blocks.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n\n".join(blocks)


def _print_code(source: str, language: str) -> None:
    if not sys.stdout.isatty():
        click.echo(source)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    # The terminal wraps long lines itself, so that they can be copied whole.
    syntax = Syntax("", language, background_color="default")
    Console(highlight=False).print(syntax.highlight(source), soft_wrap=True)
