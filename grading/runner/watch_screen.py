"""What `lab watch` shows."""

from __future__ import annotations

import click

from grading.runner import alike
from grading.runner.watcher import Recheck, Watcher
from profiling_lab.cli import hints
from profiling_lab.cli.app import complain
from profiling_lab.cli.screen import LAB, bold, dim, short, width, wrap
from profiling_lab.cli.status import next_task, say_waiting
from profiling_lab.course import progress
from profiling_lab.course.doctor import capabilities
from profiling_lab.course.manifest import Task
from profiling_lab.errors import LabError

MESSAGE_LINES = 12
STYLES = {"passed": "green", "failed": "red", "blocked": "yellow", "todo": "cyan"}


class Screen:
    """What `lab watch` shows; keeps the task in focus, for the keys."""

    def __init__(self, watcher: Watcher, *, clears: bool) -> None:
        self.watcher = watcher
        self.clears = clears
        self.focus: Task | None = None

    def show(self, result: Recheck) -> None:
        """The outcome of a run: a line a task, the first failing message, the next step."""
        self._clear()
        course = self.watcher.course
        for name, outcome in result.outcomes.items():
            passed, count = result.counts[name]
            mark = click.style(f"{outcome:<8}", fg=STYLES.get(outcome))
            click.echo(f"  {mark} {name:<34} {passed} of {count} checks")
            if outcome == "not run" and result.messages.get(name):
                _show_message(result.messages[name][0][1])
        if result.trouble:
            click.echo(click.style(wrap(result.trouble, "  "), fg="red"))
        failing = result.first_failing()
        if failing is not None:
            self.focus = course.tasks[failing]
            name, message, cases = alike.folded(result.messages[failing])[0]
            click.echo()
            click.echo(bold(f"  {name}"))
            _show_message("\n".join([message, *([alike.further(cases)] if cases else [])]))
        else:
            rest = [n for n, o in result.outcomes.items() if o not in ("passed", "not run")]
            self.focus = course.tasks[rest[0]] if rest else self._next()
        click.echo(dim(f"  checked in {result.seconds:.2f} s"))
        self.show_next()

    def show_next(self) -> None:
        """Points so far and the step that comes next."""
        course = self.watcher.course
        verdicts = progress.verdicts(course)
        click.echo()
        click.echo(f"  {progress.points(course, verdicts)}")
        if self.focus is None:
            if not say_waiting(course, verdicts, "  "):
                click.echo(bold("  All of it has its points."))
        else:
            task = self.focus
            click.echo(bold(f"  Next: {task.id}") + f"  {task.title}")
            what = "the TODO" if task.is_cuda else task.name
            click.echo(f"        write {what} in {short(course.root / task.stub)}")
            click.echo(f"        stuck? {LAB} hint {task.id}")

    def move_on(self) -> None:
        """Put the next open task after the one in focus into focus."""
        self._clear()
        self.focus = self._next(after=self.focus)
        self.show_next()

    def hint(self) -> None:
        """Show the hint for the task in focus, a stronger one each time."""
        if self.focus is None:
            return
        self._clear()
        try:
            hints.show(self.watcher.course, self.focus)
        except LabError as error:
            complain(str(error))

    def _next(self, after: Task | None = None) -> Task | None:
        verdicts = progress.verdicts(self.watcher.course)
        can = capabilities()
        tasks = self.watcher.tasks
        start = tasks.index(after) + 1 if after in tasks else 0
        for task in [*tasks[start:], *tasks[:start]]:
            if task.needs <= can and verdicts[task.id].outcome not in ("passed", "not run"):
                return task
        return next_task(self.watcher.course, verdicts)

    def _clear(self) -> None:
        if self.clears:
            click.clear()
        else:
            click.echo()


def _show_message(message: str) -> None:
    lines = message.strip().splitlines()
    for line in lines[:MESSAGE_LINES]:
        room = width() - 4
        if len(line) > room and line.lstrip() == line:
            click.echo(wrap(line, "    "))
        else:
            click.echo(f"    {line}")
    if len(lines) > MESSAGE_LINES:
        click.echo(dim(f"    … {len(lines) - MESSAGE_LINES} more lines: {LAB} check"))
