"""What one run of pytest knows of what it judges: the tree, its opened stubs, the score."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import pytest

from grading.runner import wire, worker_processes
from grading.runner.journal import Journal
from grading.runner.scoring import NotGraded, Score
from grading.runner.stubs import Stub, open_stub
from profiling_lab import needs
from profiling_lab.course import manifest, stubs
from profiling_lab.course.closure import users
from profiling_lab.course.manifest import Course, Exercise, Task
from profiling_lab.errors import LabError

session_key: pytest.StashKey[GradingSession] = pytest.StashKey()


class Hooks:
    """Hooks of plugins that judge more than a learner's own work."""

    def pytest_judging_begins(self, judging: GradingSession) -> None:
        """A session was made from the options; one whose checks stand ready makes one for each job."""


class GradingSession:
    """What one run of pytest knows: the tree under judgement, opened stubs, the score.

    Plugins change in `pytest_judging_begins` what these say: overlay: a file that is judged in the place
    of the tree's of the same name. limit_bytes: the largest message of an isolated stub. starts_workers: what starts
    its process. more_of_score: further entries of the score's JSON.
    """

    def __init__(self, config: pytest.Config, course: Course) -> None:
        self.config = config
        self.course = course
        against = config.getoption("--against")
        self.tree = self._tree(against) if against else course.root
        self.overlay: Path | None = None
        self.score = Score(course)
        self.more_of_score: dict[str, Any] = {}
        self.stubs: dict[PurePosixPath, Stub] = {}
        self.journal = Journal(course.root / ".lab" / "running.json")
        self._capabilities: frozenset[str] | None = None
        self._lacks: dict[frozenset[str], list[str]] = {}
        self._todo: dict[str, bool] = {}
        self._said: dict[str, str] = {}  # by reason, the test that said it
        self.failures: dict[str, pytest.TestReport] = {}  # by test
        self.further: dict[str, list[str]] = {}  # by that test, those that failed alike
        self.blocked_by: dict[str, str] = {}
        self.hung: dict[str, str] = {}
        self.causes: dict[str, str] = {}
        self.lacking: dict[str, frozenset[str]] = {}  # by what was not run for it
        self.call_timeout_s: float = config.getoption("--call-timeout")
        self.limit_bytes = wire.MAX_FRAME_BYTES
        self.starts_workers: Callable[[Exercise, PurePosixPath], worker_processes.Start] = (
            lambda _exercise, _stub: worker_processes.start
        )
        config.hook.pytest_judging_begins(judging=self)
        self.left_over = self.journal.left_over() if self.is_own else None

    @property
    def is_own(self) -> bool:
        """Whether the learner's own work is judged, as it stands."""
        return self.tree == self.course.root and self.overlay is None

    def _tree(self, against: str) -> Path:
        for base in (Path.cwd(), self.course.root):
            if (base / against).is_dir():
                return (base / against).resolve()
        if Path(against).is_file():
            raise pytest.UsageError(
                f"--against {against}: takes a folder, and this is a file; unpack it first, as in "
                f"unzip -q {shlex.quote(against)} -d unpacked (or tar -xf), then --against unpacked"
            )
        raise pytest.UsageError(f"--against {against}: no such folder")

    def checks_for(self, argument: str) -> str:
        """Where the checks lie for a folder or file of an exercise; other arguments are kept."""
        name, separator, rest = argument.partition("::")
        path = Path(os.path.abspath(name))
        for base in (self.course.root / manifest.SOLUTIONS, self.course.root):
            if not path.is_relative_to(base):
                continue
            inside = PurePosixPath(path.relative_to(base).as_posix())
            stubs = {stub for exercise in self.course.exercises for stub in exercise.stubs}
            if inside in stubs:
                return str(self.course.checks(inside)) + separator + rest
            above = {folder for stub in stubs for folder in stub.parents} - {PurePosixPath(".")}
            for folder in (inside, *inside.parents) if path.is_dir() else ():
                mirrored = self.course.root / "tests" / folder
                if folder in above and mirrored.is_dir():  # a cuda/ folder has none of its own
                    return str(mirrored)
        return argument

    @property
    def capabilities(self) -> frozenset[str]:
        """What this machine can do, in the words of the manifest's `needs`."""
        if self._capabilities is None:
            # It asks the machine, and most runs do not need to know.
            from profiling_lab.course.doctor import capabilities

            self._capabilities = capabilities()
        return self._capabilities

    def lacks(self, names: frozenset[str]) -> list[str]:
        """What this machine lacks of some words of `needs`."""
        if names and names not in self._lacks:
            # As above: a child that runs one check looks for what that needs alone.
            from profiling_lab.course.doctor import absent

            self._lacks[names] = absent(names)
        return self._lacks.get(names, [])

    def task_of(self, item: pytest.Item) -> Task | None:
        """The task that a check is bound to; None for the harness's own tests."""
        marker = item.get_closest_marker("task")
        return self.course.task(marker.args[0]) if marker else None

    def gate(self, task: Task) -> None:
        """End a check that must not run here and now."""
        source = self.source(task.stub)
        if self.overlay is None and self.is_todo(task):
            raise NotGraded("todo", f"{task.id} is still to do in {self.show(source)}")
        if task.live and not self.config.getoption("--live"):
            raise NotGraded("not run", f"{task.id} is a live check; add --live")
        if missing := self.lacks(task.needs):
            raise NotGraded("not run", needs.lacks(task.id, missing), missing=missing)

    def note_lacking(self, what: str, missing: Collection[str]) -> None:
        """Note what was not run for want of what a group would bring."""
        if needs.remedy(missing):
            self.lacking[what] = frozenset(missing)

    def fail_once(self, check: str, message: str, *what: str, cause: str = "") -> NoReturn:
        """Fail for something that meets many checks alike: said at the first, counted at all.

        check: the test's node id. what: the failure is alike if one of these was the reason of another. cause: as
        in `CheckResult`.
        """
        self.fail_if_said(check, message, *what, cause=cause)
        self.causes[message] = cause
        pytest.fail(message, pytrace=False)

    def fail_if_said(self, check: str, message: str, *what: str, cause: str = "") -> None:
        """Fail without words of its own if another check has said the same; else note that this one does."""
        if first := next((self._said[one] for one in what if one in self._said), ""):
            self.further.setdefault(first, []).append(check)
            raise NotGraded("failed", message, cause)
        self._said |= dict.fromkeys(what, check)

    def fail_if_it_ended_the_process(self, task: Task, check: str) -> None:
        """Fail a check whose code ended an earlier run and has not changed since."""
        if not (self.is_own and self.left_over):
            return
        file = self.source(task.stub)
        for ended, left in self.journal.ended_in(source_hash=manifest.source_hash(file)).items():
            name = self.course.task(ended).name
            uses_it = not task.is_cuda and task.name in users(file.read_text("utf-8"), {name})
            if task.id == ended or uses_it:
                self.fail_once(check, f"{ended}: {left}", f"ended by {ended}")

    def is_todo(self, task: Task) -> bool:
        """Whether a task is still to do in the tree under judgement, as this run found it."""
        if task.id not in self._todo:
            self._todo[task.id] = manifest.is_todo(task, self.tree)
        return self._todo[task.id]

    def is_begun(self, task: Task) -> bool:
        """Whether a compiled stub differs from the one that was handed out."""
        try:
            exercise = self.course.exercise(task.exercise)
            handed_out = stubs.generate(self.course, exercise)[self.course.root / task.stub]
            return self.source(task.stub).read_text("utf-8") != handed_out
        except (OSError, LabError):
            return False

    def source(self, stub: PurePosixPath) -> Path:
        """The file under judgement for a stub."""
        if self.overlay is not None and self.overlay.name == stub.name:
            return self.overlay
        return self.tree / stub

    def show(self, path: Path) -> str:
        """A path as a person would write it."""
        try:
            return str(path.relative_to(Path.cwd()))
        except ValueError:
            return str(path)

    def open(self, exercise: Exercise, stub: PurePosixPath) -> Stub:
        """The stub of an exercise in the tree under judgement, opened once a session."""
        if stub not in self.stubs:
            source = self.source(stub)
            try:
                todo = manifest.todo_names(source.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                todo = set()
            tasks = {task.name: task.id for task in exercise.tasks if task.stub == stub}
            self.stubs[stub] = open_stub(
                source,
                module_name=f"learner_{exercise.id}_{stub.stem}",
                isolated=self.config.getoption("--isolated"),
                import_paths=[self.course.root],
                functions=sorted(tasks),
                todo=todo,
                task_of=tasks,
                timeout_s=self.call_timeout_s,
                limit_bytes=self.limit_bytes,
                start_worker=self.starts_workers(exercise, stub),
            )
        return self.stubs[stub]

    def ran_all(self, identifier: str) -> bool:
        """Whether every check of a task ran in this session, and not a selection of them."""
        result = self.score.results[identifier]
        ran = {check.name.split("[")[0] for check in result.checks}
        return ran == bound_checks(self.course.checks(result.task.stub), identifier)

    def close(self) -> None:
        """End the workers, and leave no journal behind."""
        for stub in self.stubs.values():
            stub.close()
        self.journal.close()


def bound_checks(file: Path, identifier: str) -> set[str]:
    """The names of the check functions in a file that are bound to a task."""
    return {name for name, task in manifest.checks_in(file) if task == identifier}
