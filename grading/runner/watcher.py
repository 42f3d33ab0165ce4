"""What `lab watch` checks again: the tasks whose verdict a change can alter."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grading.runner.forkserver import ForkServer
from profiling_lab.cli.checking import configuration, selection
from profiling_lab.course import closure, progress
from profiling_lab.course.manifest import Course, Task, is_todo


@dataclass
class Recheck:
    """One run: outcomes and messages by task, how long it took, and what pytest printed."""

    outcomes: dict[str, str] = field(default_factory=dict)
    messages: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    output: str = ""
    trouble: str = ""

    def joined(self, other: Recheck, order: Iterable[str]) -> Recheck:
        """This run and a later one together, the tasks in the given order."""
        outcomes = {**self.outcomes, **other.outcomes}
        return Recheck(
            {name: outcomes[name] for name in order if name in outcomes},
            {**self.messages, **other.messages},
            {**self.counts, **other.counts},
            self.seconds,
            other.output,
            self.trouble or other.trouble,
        )

    def first_failing(self) -> str | None:
        """The first task, in the order of the course, that failed."""
        return next((name for name, o in self.outcomes.items() if o == "failed"), None)


class Watcher:
    """Knows the files that are watched, what was in them, and how to check what changed.

    tasks: those to watch; live ones are left to `lab check --live`.
    """

    def __init__(self, course: Course, tasks: Iterable[Task], server: ForkServer) -> None:
        self.course = course
        self.tasks = [task for task in tasks if not task.live]
        self.files = {course.root / task.stub: task.stub for task in self.tasks}
        self.sources = {file: _read(file) for file in self.files}
        self.verdicts = progress.verdicts(course)
        self.pending: list[Task] = []
        self.broken: set[Path] = set()  # files that do not parse; `sources` holds what last did
        self._server = server

    def changed(self, files: Iterable[Path]) -> list[Task]:
        """The tasks to check at once after files were written; the rest goes to `pending`.

        At once: those whose own functions changed; else one of those that may be affected. The
        verdicts on tasks that do not use what changed still hold, and are kept.
        """
        first: list[Task] = []
        later: list[Task] = []
        held: list[Task] = []
        for file in files:
            if file not in self.files:
                continue
            source = _read(file)
            tasks = [task for task in self.tasks if self.course.root / task.stub == file]
            if file.suffix == ".py" and not _parses(source):
                # One check says what is wrong; what was known before holds again once it parses.
                self.broken.add(file)
                first += _best_begun(tasks, self.verdicts)
                continue
            was_broken = file in self.broken
            self.broken.discard(file)
            before, self.sources[file] = self.sources[file], source
            if before == source and not was_broken:
                continue
            if file.suffix != ".py":
                first += tasks
                continue
            names, others = affected(before, source, {task.name for task in tasks})
            first += [task for task in tasks if task.name in names]
            later += [task for task in tasks if task.name in others]
            held += [task for task in tasks if task.name not in names | others]
            if was_broken and not names | others:
                first += _best_begun(tasks, self.verdicts)
        self._hold(held)
        waiting = {task.id for task in [*self.pending, *later]} - {task.id for task in first}
        self.pending = [task for task in self.tasks if task.id in waiting]
        if not first and self.pending:
            first.append(self.pending.pop(0))
        return first

    def take_pending(self) -> list[Task]:
        """The tasks that wait for a moment without a save, those to do left out."""
        tasks = [task for task in self.pending if not is_todo(task, self.course.root)]
        self.pending = []
        return tasks

    def _hold(self, tasks: list[Task]) -> None:
        """Keep verdicts that were known before the file changed."""
        known = {
            task.id: self.verdicts[task.id]
            for task in tasks
            if self.verdicts[task.id].outcome in ("passed", "failed")
        }
        outcomes = {name: (v.outcome, [v.message]) for name, v in known.items()}
        if outcomes:
            progress.update(self.course, outcomes, complete=set(outcomes))

    def check(self, tasks: list[Task]) -> Recheck:
        """Run the checks of tasks on the learner's own files."""
        arguments = selection(self.course, tasks)
        if not arguments:
            return Recheck(trouble="no checks for what changed")
        with tempfile.TemporaryDirectory(prefix="lab_") as scratch:
            score = Path(scratch) / "score.json"
            result = self._server.run(
                [
                    *arguments,
                    *("-q", "--tb=no", "--no-header", "--color=no"),
                    *configuration(self.course),
                    *("-p", "no:cacheprovider"),
                    *("--score-json", str(score)),
                ],
                cwd=self.course.root,
            )
            if not score.is_file():
                return Recheck(
                    seconds=result.seconds, output=result.output, trouble=_trouble(result)
                )
            scored = json.loads(score.read_text(encoding="utf-8"))["tasks"]
        fresh = progress.verdicts(self.course)
        for name, task in self.course.tasks.items():
            if self.course.root / task.stub not in self.broken:
                self.verdicts[name] = fresh[name]
        out = Recheck(seconds=result.seconds, output=result.output)
        for task in self.tasks:
            if task.id not in scored:
                continue
            row = scored[task.id]
            out.outcomes[task.id] = row["outcome"]
            checks = row["checks"]
            out.counts[task.id] = (sum(c["outcome"] == "passed" for c in checks), len(checks))
            out.messages[task.id] = [
                (c["name"], c["message"]) for c in checks if c["outcome"] == row["outcome"]
            ]
        return out


def _trouble(result: Any) -> str:
    if result.exit_code < 0:
        return f"your code ended the whole process (signal {-result.exit_code})"
    lines = [line for line in result.output.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    return f"the checks ended early (exit code {result.exit_code}): {last}"


def affected(before: str, after: str, tasks: set[str]) -> tuple[set[str], set[str]]:
    """The task functions that a change is in, and the others whose verdict it may alter.

    Where a source does not parse that cannot be told: all of them, none apart.
    """
    try:
        names = closure.changed(before, after)
        all_names = closure.users(after, names) if names else set()
    except (SyntaxError, ValueError):
        return set(), set(tasks)
    return names & tasks, (all_names - names) & tasks


def _parses(source: str) -> bool:
    try:
        closure.definitions(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _best_begun(tasks: list[Task], verdicts: dict[str, progress.Verdict]) -> list[Task]:
    """One task to check for the sake of its file: a begun one where there is one."""
    begun = [task for task in tasks if verdicts[task.id].outcome != "todo"]
    return (begun or tasks)[:1]


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
