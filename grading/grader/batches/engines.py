"""Runs units (one exercise of one submission) through judges: the engine of this machine.

The engine of a Slurm cluster (`grading.grader.batches.slurm`) runs this one in each of its jobs.
"""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from grading.grader import sandbox
from grading.grader.batches import keys
from grading.grader.intake.submissions import Submission
from grading.grader.judge import Judge as CourseJudge
from grading.runner.results import Check, Key, Result, Task
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Exercise
from profiling_lab.errors import LabError
from profiling_lab.mine.functions import load_file
from profiling_lab.record.tools import query_gpus

PAUSES_S = (1.0, 5.0, 20.0)  # before each further attempt
POLL_S = 0.1


@dataclass(frozen=True)
class Unit:
    """One exercise of one submission, and the key that its result goes under."""

    submission: Submission
    exercise: Exercise
    key: Key

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.submission.student} {self.exercise.id}"


class Judge(Protocol):
    """What an engine asks of a judge; `grade` is called from several threads."""

    def grade(
        self,
        submission: Submission,
        exercise: Exercise,
        key: Key,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> Result:
        """Judge one exercise. environment: changes for runs on GPUs (the leased devices)."""
        ...


class Reporter(Protocol):
    """Whom an engine tells; called from several threads."""

    def started(self, unit: Unit) -> None:
        """A unit is being judged."""
        ...

    def finished(self, unit: Unit, result: Result) -> None:
        """A unit has its result, which is kept when this returns. An error stops the engine."""
        ...

    def note(self, text: str) -> None:
        """Something that the instructor should know now."""
        ...


class Engine(Protocol):
    """Runs units."""

    def environment(self) -> dict[str, Any]:
        """What verdicts depend on where the judges run (`grading.grader.batches.keys.environment`)."""
        ...

    def run(self, units: Iterable[Unit], reporter: Reporter, stop: threading.Event) -> None:
        """Run units until all have a result, or until `stop` is set: then nothing new is begun.

        Raises LabError if judging cannot go on at all.
        """
        ...


@dataclass(frozen=True)
class JudgeSpec:
    """How to open a judge, as plain data: it travels to the jobs of a cluster.

    root: the course. sandbox: "auto", "bubblewrap", "namespaces" or "none". parallel: units at a time.
    cases: a folder of further cases, or None. opener: "module:function" or "FILE:function" that makes a
    judge, a context manager, of a spec.
    """

    root: str
    sandbox: str = "auto"
    parallel: int = 1
    seed: int = 0
    cases: str | None = None
    live: bool = False
    opener: str = "grading.grader.batches.engines:open_judge"

    def open(self) -> AbstractContextManager[Judge]:
        """The judge, to be entered."""
        module, _, function = self.opener.rpartition(":")
        if module.endswith(".py"):
            return getattr(load_file(Path(module)), function)(self)
        return getattr(import_module(module), function)(self)


def open_judge(spec: JudgeSpec) -> AbstractContextManager[Judge]:
    """The course's own judge."""
    return CourseJudge(
        manifest.load(Path(spec.root)),
        sandbox=spec.sandbox,
        parallel=spec.parallel,
        seed=spec.seed,
        cases=Path(spec.cases) if spec.cases else None,
        live=spec.live,
    )


def without_judge(unit: Unit) -> Result | None:
    """The result of a unit that needs no judge, since nothing of it was handed in; else None."""
    states = {str(s): unit.submission.files.get(str(s), "missing") for s in unit.exercise.stubs}
    checks: list[Check] = []
    outcome, cause = "todo", ""
    if unit.submission.error:
        outcome, cause = "error", "refused file"
        checks = [Check("the submission", outcome, unit.submission.error, cause)]
    elif any(state != "missing" for state in states.values()):
        return None
    tasks = {
        task.id: Task(outcome, task.points, 0, task.live, task.trust, cause, list(checks))
        for task in unit.exercise.tasks
    }
    return Result(unit.submission.student, unit.exercise.id, unit.key, tasks, states)


def not_judged(unit: Unit, why: str, *, attempts: int = 0, seconds: float = 0.0) -> Result:
    """The result of a unit that could not be judged: no zero, and no points either."""
    tasks = {
        task.id: Task("infrastructure", task.points, 0, live=task.live, trust=task.trust)
        for task in unit.exercise.tasks
    }
    files = {str(s): unit.submission.files.get(str(s), "missing") for s in unit.exercise.stubs}
    student, exercise = unit.submission.student, unit.exercise.id
    return Result(student, exercise, unit.key, tasks, files, why, seconds, attempts)


class Broken(LabError):
    """Nothing can be judged here any more; the message says why."""


class Local:
    """Judges on this machine, `spec.parallel` units at a time.

    What fails for want of infrastructure is tried again `retries` times, after growing pauses. If
    unit after unit fails so, the engine gives up: the machine needs fixing, not patience.
    """

    def __init__(
        self,
        spec: JudgeSpec,
        *,
        retries: int = 2,
        pauses_s: Sequence[float] = PAUSES_S,
        devices: Devices | None = None,
    ) -> None:
        self.spec = spec
        self.retries = retries
        self.pauses_s = pauses_s
        self.devices = devices if devices is not None or not spec.live else Devices()
        self.give_up_after = max(8, 4 * spec.parallel)
        self._failures = 0
        self._mutex = threading.Lock()

    def environment(self) -> dict[str, Any]:
        """This machine's."""
        kind = sandbox_kind(self.spec.sandbox)
        return keys.environment(sandbox=kind, live=self.spec.live)

    def run(self, units: Iterable[Unit], reporter: Reporter, stop: threading.Event) -> None:
        """Run units in threads; the first error of the reporter ends it and is raised."""
        errors: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        waiting = iter(units)

        def work() -> None:
            try:
                while not stop.is_set():
                    with self._mutex:
                        unit = next(waiting, None)
                    if unit is None:
                        return
                    reporter.started(unit)
                    result = self._judge(judge, unit, stop)
                    if result is not None:
                        reporter.finished(unit, result)
                        self._count(result)
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                errors.put(error)
                stop.set()

        with self.spec.open() as judge:
            threads = [
                threading.Thread(target=work, name=f"grade {number}", daemon=True)
                for number in range(self.spec.parallel)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():  # with a time-out, so that Ctrl-C is heard
                    thread.join(POLL_S)
        if not errors.empty():
            raise errors.get()

    def _judge(self, judge: Judge, unit: Unit, stop: threading.Event) -> Result | None:
        """The result after at most `retries` more attempts; None if it was stopped before."""
        started = time.monotonic()
        attempt = 0
        while True:
            attempt += 1
            try:
                result = self._once(judge, unit)
            except Exception as error:  # noqa: BLE001 - whatever it was, it was not the submission
                last = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(last.filename).name}, line {last.lineno}"
                why = f"the grader failed: {type(error).__name__}: {error} ({place})"
                result = not_judged(unit, why)
            if result.infrastructure:
                # Ctrl-C reaches the judge's children too: what fails then says nothing.
                if stop.is_set():
                    return None
                if attempt <= self.retries:
                    if stop.wait(self.pauses_s[min(attempt, len(self.pauses_s)) - 1]):
                        return None
                    continue
            seconds = time.monotonic() - started
            return replace(result, key=unit.key, attempts=attempt, seconds=seconds)

    def _once(self, judge: Judge, unit: Unit) -> Result:
        count = gpus_needed(unit.exercise) if self.devices is not None else 0
        if not count or self.devices is None:
            return judge.grade(unit.submission, unit.exercise, unit.key)
        with self.devices.lease(count) as leased:
            visible = {"CUDA_VISIBLE_DEVICES": ",".join(leased)}
            return judge.grade(unit.submission, unit.exercise, unit.key, environment=visible)

    def _count(self, result: Result) -> None:
        with self._mutex:
            self._failures = self._failures + 1 if result.infrastructure else 0
            if self._failures >= self.give_up_after:
                raise Broken(
                    f"the last {self._failures} exercises could not be judged: "
                    f"{result.infrastructure}; fix that and run the same command again"
                )


def sandbox_kind(asked: str) -> str:
    """The kind of sandbox that `asked` ("auto" or a kind) gives here. Raises SandboxUnavailable."""
    return sandbox.strongest() if asked == "auto" else asked


def gpus_needed(exercise: Exercise) -> int:
    """How many GPUs an exercise's live tasks need at the same time."""
    needs = {need for task in exercise.tasks if task.live for need in task.needs}
    return 2 if "gpus2" in needs else 1 if "gpu" in needs else 0


# -- GPUs -----------------------------------------------------------------------------------------


class Devices:
    """The GPUs of this machine, leased one user at a time, also among several graders.

    names: as CUDA_VISIBLE_DEVICES takes them; by default those that this process may see. folder:
    where the lock files lie that graders share.
    """

    def __init__(self, names: Sequence[str] | None = None, folder: Path | None = None) -> None:
        self.names = tuple(names if names is not None else visible_devices())
        self.folder = folder or Path(tempfile.gettempdir())
        self._free = set(self.names)
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def lease(self, count: int = 1) -> Iterator[tuple[str, ...]]:
        """Wait for `count` GPUs (at most all there are) that nobody uses; give them back afterwards."""
        count = min(count, len(self.names))
        with contextlib.ExitStack() as held:
            yield self._take(count, held)

    def _take(self, count: int, held: contextlib.ExitStack) -> tuple[str, ...]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._free) >= count)
                mine = tuple([name for name in self.names if name in self._free][:count])
                self._free.difference_update(mine)
            attempt = contextlib.ExitStack()
            attempt.callback(self._give_back, mine)
            # All or none, so that two graders that want two devices each cannot block each other.
            if all(self._lock(name, attempt) for name in mine):
                held.push(attempt.pop_all())
                return mine
            attempt.close()
            time.sleep(0.2)

    def _give_back(self, names: tuple[str, ...]) -> None:
        with self._changed:
            self._free.update(names)
            self._changed.notify_all()

    def _lock(self, name: str, held: contextlib.ExitStack) -> bool:
        import fcntl

        safe = "".join(c if c.isalnum() or c == "-" else "_" for c in name)
        file = self.folder / f"profiling-lab-gpu-{safe}.lock"
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(file, flags)
        except FileNotFoundError:
            descriptor = os.open(file, flags | os.O_CREAT, 0o666)
            with contextlib.suppress(OSError):
                os.fchmod(descriptor, 0o666)  # graders of other users lock the same file
        try:
            # Held by the open file and not by the process: two engines of one process exclude each
            # other too. The descriptor does not survive an exec.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        held.callback(os.close, descriptor)
        return True


def visible_devices(read: Callable[..., list] | None = None) -> list[str]:
    """The GPUs that this process may use: CUDA_VISIBLE_DEVICES, else all by their UUID."""
    if (given := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    return [str(gpu["uuid"]) for gpu in (read or query_gpus)(("uuid",))]
