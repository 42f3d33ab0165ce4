"""Runs of the proof, made beside the tests that come before those that ask for them.

A test that is marked `background("mistake")` asks for what a run of that kind came to, named by its parameter. All
these runs begin with the session, in a process of their own: what a test does to its own process (its
environment, its folder) changes nothing of them. They leave one core to the other tests, and take all of
them once a test waits.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self

from grading.errors import SandboxUnavailable
from grading.grader.intake.submissions import Submission
from grading.grader.judge import Judge
from grading.grader.sandbox import strongest
from grading.proof.prove import Prover, verdict_on
from grading.runner.preload import modules
from grading.runner.results import Result
from profiling_lab.course import manifest, mistakes
from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.course.mistakes import Mistake
from profiling_lab.errors import CourseError

Asked = tuple[str, str]  # kind and name of a run

# Those that this process has started here, for who looks at what runs below it.
processes: set[int] = set()


def mistakes_of(course: Course) -> dict[str, tuple[Exercise, PurePosixPath, str]]:
    """Every mistake of a course by its name in the proof: of which exercise and stub, and its name there.

    Without those of a file that cannot be read: what is wrong with it is said where it is proved.
    """
    out = {}
    for exercise in course.exercises:
        for stub in exercise.stubs:
            with contextlib.suppress(CourseError):
                for slug in mistakes.names(course, stub):
                    out[f"{exercise.id}-{stub.stem}-{slug}"] = (exercise, stub, slug)
    return out


class BackgroundRuns:
    """The session's end: begins the runs, and asks for what they came to.

    A run that nobody has asked for at the start is made when its outcome is asked for.
    """

    def __init__(self, course: Course, asked: Sequence[Asked]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grading.proof.background_runs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=course.root,
            env=os.environ | {"PYTHONPATH": str(course.root)},
            start_new_session=True,  # Ctrl-C is for the session, which ends this one
        )
        processes.add(self._process.pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        _send(self._questions, (course.root, list(asked)))

    def __call__(self, kind: str, name: str) -> Any:
        """What a run came to, waited for if need be; raises what the run raised."""
        _send(self._questions, (kind, name))
        outcome = pickle.load(self._answers)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def close(self) -> None:
        """End the runs that nobody has waited for."""
        with contextlib.suppress(OSError):
            self._questions.close()
        self._process.wait()
        processes.discard(self._process.pid)
        self._answers.close()


def _send(stream: IO[bytes], message: Any) -> None:
    stream.write(pickle.dumps(message))
    stream.flush()


# --- the other process -----------------------------------------------------------------------------


class _Room:
    """So many runs at a time, as many as there is room for at the moment."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._running = 0
        self._changed = threading.Condition()

    def set(self, most: int) -> None:
        with self._changed:
            self.most = most
            self._changed.notify_all()

    def __enter__(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._running < self.most)
            self._running += 1

    def __exit__(self, *exc: object) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()


class _Runs:
    """Begins runs in the order in which they are asked for. Use as a context manager."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.prover = Prover(course)
        self._judge = Judge(
            course, sandbox=_sandbox(), seed=int(Prover.seed), server=self.prover.server
        )
        self._mistakes = mistakes_of(course)
        self._read = functools.cache(functools.partial(mistakes.read, course))
        self._stack = contextlib.ExitStack()
        self._opening = threading.Lock()
        self._is_open = False
        self._room = _Room(max(1, self.prover.parallel - 1))
        self._pool = ThreadPoolExecutor(self.prover.parallel)
        self._futures: dict[Asked, Future[Any]] = {}

    def __enter__(self) -> Self:
        self._stack.enter_context(self.prover)
        self._scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._stack.callback(self._pool.shutdown, cancel_futures=True)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def begin_all(self, asked: Sequence[Asked]) -> None:
        """Begin runs: those of exercises with the same needs together, which share what is imported for them.

        The exercises that need most come first, so that many short runs are left to fill the last cores.
        """

        def needed(run: Asked) -> tuple[int, tuple[str, ...]]:
            if run[0] == "examples":
                names = self.prover.modules_of(run[1])
                return -len(names), names
            if run[1] in self._mistakes:
                names: tuple[str, ...] = ()
                with contextlib.suppress(CourseError):  # said where it is begun
                    names = self.prover.modules_of_mistake(self._mistake(run[1]))
                return -len(names), names
            found = [exercise for exercise in self.course.exercises if exercise.id == run[1]]
            names = modules(found[0]) if found else ()
            return -len(names), names

        for kind, name in sorted(asked, key=needed):
            self.begin(kind, name)

    def begin(self, kind: str, name: str) -> Future[Any]:
        """The run of a kind and a name, begun if it is not yet."""
        if (kind, name) not in self._futures:
            try:
                future = self._pool.submit(self._in_its_turn, self._run_of(kind, name))
            except Exception as error:  # noqa: BLE001 -- raised where it is asked for
                future = Future()
                future.set_exception(error)
            self._futures[kind, name] = future
        return self._futures[kind, name]

    def outcome(self, kind: str, name: str) -> Any:
        """What a run came to, or what it raised; while somebody waits, all cores are used."""
        future = self.begin(kind, name)
        if not future.done():
            self._room.set(self.prover.parallel)
        try:
            return future.result()
        except Exception as error:  # noqa: BLE001 -- raised where it is asked for
            return error
        finally:
            self._room.set(max(1, self.prover.parallel - 1))

    def _in_its_turn(self, run: Callable[[], Any]) -> Any:
        with self._room:
            return run()

    def _run_of(self, kind: str, name: str) -> Callable[[], Any]:
        """The function that makes a run.

        Only what comes before may parse Python: CPython 3.11 fails if two threads do so at the same time.
        """
        if kind in ("reference", "stub", "graded"):
            exercise = self.course.exercise(name)
            folder = self._scratch / f"{kind}-{name}"
            if kind == "graded":
                submissions_of(self.prover, exercise, folder)
                return functools.partial(self._graded, exercise, folder)
            tree = self.prover.stub_tree(exercise, folder) if kind == "stub" else None
            return functools.partial(self.prover.run, self.prover.check_files(exercise), tree=tree)
        if kind == "examples":
            return functools.partial(self.prover.run_examples, name)
        isolated = {"mistake": False, "isolated mistake": True}[kind]
        mistake = self._mistake(name)
        return lambda: verdict_on(mistake, self.prover.run_mistake(mistake, isolated=isolated))

    def _mistake(self, name: str) -> Mistake:
        _, stub, slug = self._mistakes[name]
        return next(one for one in self._read(stub) if one.slug == slug)

    def _graded(self, exercise: Exercise, folder: Path) -> tuple[Result, Result]:
        with self._opening:
            if not self._is_open:
                self._stack.enter_context(self._judge)
                self._is_open = True
        return graded_pair(self._judge, exercise, folder)


def _sandbox() -> str:
    """The strongest sandbox of this machine; the code here is the course's own, so it may be none."""
    try:
        return strongest()
    except SandboxUnavailable:
        return "none"


def submissions_of(prover: Prover, exercise: Exercise, folder: Path) -> None:
    """Make a folder with two trees: `reference`, and `stubs` as they are handed out."""
    for stub in exercise.stubs:
        (folder / "reference" / stub).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(prover.course.solution(stub), folder / "reference" / stub)
    prover.stub_tree(exercise, folder / "stubs")


def graded_pair(judge: Judge, exercise: Exercise, folder: Path) -> tuple[Result, Result]:
    """The grader's results for the reference and for the stub as it is handed out."""
    whole = dict.fromkeys(map(str, exercise.stubs), "submitted")
    reference, handed_out = (
        judge.grade(Submission(name, folder / name, "", whole), exercise)
        for name in ("reference", "stubs")
    )
    return reference, handed_out


def _adopt_orphans() -> None:
    """Whatever loses its parent below this process stays below it, and apart from the session's own."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def main() -> None:
    _adopt_orphans()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is no answer
    root, asked = pickle.load(sys.stdin.buffer)
    with _Runs(manifest.load(root)) as runs, contextlib.suppress(EOFError):
        runs.begin_all(asked)
        while True:
            kind, name = pickle.load(sys.stdin.buffer)
            _send(answers, runs.outcome(kind, name))


if __name__ == "__main__":
    main()
