"""Judges one exercise of one submission: the course's checks here, the submission's code in the sandbox.

The judge never imports, unpickles or evaluates anything of a submission. It runs the same check files as
`uv run pytest`, in a child of `grading.runner.forkserver`; each stub's code runs in a worker of `grading.grader.sandbox`,
reached over `grading.runner.wire`. What counts is what the judge's own side saw: a check that did not run, for
whatever reason, has not passed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from grading.errors import SandboxError
from grading.grader.intake.parsing import too_deep
from grading.grader.intake.submissions import Submission
from grading.grader.readable import copy_recordings, readable
from grading.grader.sandbox import Sandbox, open_sandbox
from grading.grader.verdicts import Score, check_of, judged, of_unreadable, verdict, without_folders
from grading.runner import scratch
from grading.runner.forkserver import TIMED_OUT, ForkServer, Job
from grading.runner.hang_guard import DEFAULT_TIMEOUT_S
from grading.runner.pools import Pool
from grading.runner.preload import SUBMISSIONS, modules, of_checks
from grading.runner.results import Check, Key, Result
from profiling_lab.course import manifest, stubs
from profiling_lab.course.manifest import Course, Exercise

GPU_TOOLS = (Path("/opt/nvidia"),)  # Nsight Compute and Systems, where their packages put them
UNIT_TIMEOUT_S = 1_800.0
MOST_SANDBOXES = (
    2  # open at the same time while nothing runs in them; each holds up to half a gigabyte
)
_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # by a person or the machine
NO_KEY = Key("", "", "", 0)  # of a result that nobody keeps


class Judge:
    """Grades units, several at a time; a context manager.

    sandbox: the kind, as `open_sandbox` takes it. seed: of what the checks draw. parallel: units at a time.
    cases: a folder of private cases: `ID/NAME/` is a further recording for the checks of exercise ID that
    take one, `tests/…/test_….py` are further check files; what they find is marked hidden. live: also the
    checks that need this machine's GPUs. call_timeout_s: for each call of a submission's function. server: where
    checks run; its owner closes it, and its `parallel` holds. None: one of the judge's own.
    """

    def __init__(
        self,
        course: Course,
        *,
        sandbox: str = "auto",
        seed: int,
        parallel: int = 2,
        cases: Path | None = None,
        live: bool = False,
        call_timeout_s: float = DEFAULT_TIMEOUT_S,
        server: ForkServer | None = None,
    ) -> None:
        self.course = course
        self.seed = seed
        self.cases = cases.resolve() if cases else None
        self.live = live
        self.call_timeout_s = call_timeout_s
        # Read here, once: CPython 3.11 fails if two threads parse Python at the same time.
        self._bound = {
            task.id: {
                name for name, to in manifest.checks_in(course.checks(task.stub)) if to == task.id
            }
            for task in course.tasks.values()
        }
        self._imported_by_checks = {
            exercise.id: of_checks(modules(exercise, live=live), self._check_files(exercise))
            for exercise in course.exercises
        }
        self._kind = sandbox
        self._server = server or ForkServer(parallel=parallel)
        self._owns_server = server is None
        self._numbers = itertools.count(1)
        self._scratch: Path | None = None
        self._sandboxes = Pool(
            self._open_sandbox, most=MOST_SANDBOXES, is_good=lambda sandbox: sandbox.is_open
        )

    def __enter__(self) -> Self:
        self._scratch = scratch.new_folder("lab-grade-")
        exchange = self._scratch / "exchange"
        exchange.mkdir()
        try:
            self._copy_private_captures(exchange / "cases")
            copy_recordings(self.course, self._recordings)
            with self._sandboxes.use(()):  # whether there can be one is said now
                pass
        except BaseException:
            self.__exit__()
            raise
        return self

    @property
    def _recordings(self) -> Path:
        assert self._scratch is not None
        return self._scratch / "captures"

    def _open_sandbox(self, preload: tuple[str, ...]) -> Sandbox:
        assert self._scratch is not None
        return open_sandbox(
            self._kind,
            readable=[
                *readable(self.course),
                *([folder for folder in GPU_TOOLS if folder.exists()] if self.live else []),
            ],
            instead={self.course.root / "captures": self._recordings},
            exchange=self._scratch / "exchange",
            preload=[*SUBMISSIONS, *preload],
            scratch=self._scratch,
            devices=sorted(Path("/dev").glob("nvidia*")) if self.live else [],
        )

    def sandbox(self, exercise: Exercise) -> contextlib.AbstractContextManager[Sandbox]:
        """The sandbox in which an exercise's submissions run, kept for the block."""
        # What needs JAX runs in a Python of its own there, which has imported nothing.
        needed = modules(exercise, live=self.live)
        return self._sandboxes.use(tuple(name for name in needed if not name.startswith("jax")))

    def start(self) -> None:
        """Import now what the first unit would wait for."""
        self._server.start()

    def __exit__(self, *exc: object) -> None:
        if self._owns_server:
            self._server.close()
        self._sandboxes.close()
        if self._scratch is not None:
            scratch.remove(self._scratch)

    def grade(
        self,
        submission: Submission,
        exercise: Exercise,
        key: Key = NO_KEY,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> Result:
        """The result of one exercise. Infrastructure that failed is in the result, never raised.

        environment: variables for the checks and the submission's code, as CUDA_VISIBLE_DEVICES.
        """
        paths = sorted(map(str, exercise.stubs))
        files = {path: submission.files.get(path, "missing") for path in paths}
        result = Result(submission.student, exercise.id, key, {}, files)
        if not submission.error and set(files.values()) == {"missing"}:
            result.tasks = {t.id: verdict(t, "todo") for t in exercise.tasks}
            return result
        unreadable = self._unreadable(submission, files)
        if not unreadable.keys() >= files.keys():
            self._run(submission, exercise, result, environment or {})
        # In the manifest's order, whatever became of them.
        result.tasks = {
            task.id: of_unreadable(task, *unreadable[str(task.stub)])
            if str(task.stub) in unreadable
            else result.tasks[task.id]
            for task in exercise.tasks
        }
        return result

    def _unreadable(
        self, submission: Submission, files: Mapping[str, str]
    ) -> dict[str, tuple[str, str]]:
        """Stub files that cannot be judged, with cause and message."""
        if submission.error:
            return dict.fromkeys(files, ("refused file", submission.error))
        found = {}
        for path, state in files.items():
            if state.startswith("refused"):
                found[path] = ("refused file", f"{path} was not taken: {state.partition(': ')[2]}")
            elif state == "submitted" and path.endswith(".py"):
                text = (submission.tree / path).read_text(encoding="utf-8-sig")
                if why := too_deep(text):
                    found[path] = ("bad import", f"{path} cannot be read: {why}")
        return found

    def _run(
        self,
        submission: Submission,
        exercise: Exercise,
        result: Result,
        environment: Mapping[str, str],
    ) -> None:
        """Run the checks of an exercise, and put what came of them into the result."""
        files = [str(file) for file in self._check_files(exercise)]
        scores = [self._checks(submission, exercise, files, environment)]
        if scores[0].died and self._is_its_doing(submission, exercise, scores[0], environment):
            why = f"{scores[0].problem} while they judged this, and they do not with the file as handed out"
            check = Check("the checks", "error", why, scores[0].died)
            result.tasks = {t.id: verdict(t, "error", check.cause, [check]) for t in exercise.tasks}
            return
        if scores[0].broken and (why := self._breaks(submission, exercise, environment, scores)):
            check = Check("the checks", "error", why, "crash")
            result.tasks = {t.id: verdict(t, "error", "crash", [check]) for t in exercise.tasks}
            return
        problem = scores[0].problem or self._not_run(exercise, scores[0])
        for arguments in self._private_runs(exercise):
            scores.append(self._checks(submission, exercise, arguments, environment))
            problem = problem or scores[-1].problem
        for task in exercise.tasks:
            checks = [
                check_of(check, hidden=place > 0)
                for place, score in enumerate(scores)
                for check in score.tasks.get(task.id, {}).get("checks", [])
                # A private recording says nothing to a task that does not read it.
                if place == 0 or check["outcome"] != "not run"
            ]
            result.tasks[task.id] = judged(task, checks)
        result.infrastructure = problem or next((s.broken for s in scores if s.broken), "")

    def _is_its_doing(
        self,
        submission: Submission,
        exercise: Exercise,
        score: Score,
        environment: Mapping[str, str],
    ) -> bool:
        """Whether it is a submission that makes its checks die: they do so again, and not without it."""
        files = [str(file) for file in self._check_files(exercise)]
        if (
            score.died != "time-out"
            and not self._checks(submission, exercise, files, environment).died
        ):
            return False
        assert self._scratch is not None
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            for file, text in stubs.generate(self.course, exercise).items():
                target = Path(folder) / file.relative_to(self.course.root)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            states = dict.fromkeys(map(str, exercise.stubs), "submitted")
            handed_out = Submission("as handed out", Path(folder), "", states)
            return not self._checks(handed_out, exercise, files, environment).problem

    def _breaks(
        self,
        submission: Submission,
        exercise: Exercise,
        environment: Mapping[str, str],
        scores: list[Score],
    ) -> str:
        """Why it is a submission that breaks the sandbox, "" if it isn't: once more, and not the reference.

        What the second run found takes the place of the first in `scores`.
        """
        files = [str(file) for file in self._check_files(exercise)]
        scores[0] = self._checks(submission, exercise, files, environment)
        if not (broken := scores[0].broken):
            return ""
        states = dict.fromkeys(map(str, exercise.stubs), "submitted")
        reference = Submission("the reference", self.course.root / "solutions", "", states)
        control = self._checks(reference, exercise, files, environment)
        if control.problem or control.broken:
            return ""
        return f"{broken}: twice with this file, and not with the reference"

    def _not_run(self, exercise: Exercise, score: Score) -> str:
        """Which checks did not run though they should have; "" if none."""
        for task in exercise.tasks:
            checks = score.tasks.get(task.id, {}).get("checks", [])
            if missing := sorted(self._bound[task.id] - {c["name"].split("[")[0] for c in checks}):
                return f"{task.id}: {', '.join(missing)} did not run"
        return ""

    def _check_files(self, exercise: Exercise) -> list[Path]:
        return [self.course.checks(stub) for stub in exercise.stubs]

    def _copy_private_captures(self, target: Path) -> None:
        """Copy the private recordings to where a job sees the one that it is judged on, and no other.

        What a submission says in a run on the course's own recordings is not hidden from its author.
        """
        if self.cases is None:
            return
        for exercise in self.course.exercises:
            for capture in sorted((self.cases / exercise.id).glob("*")):
                place = target / exercise.id / capture.name
                place.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if capture.is_dir() else shutil.copy2)(capture, place)

    def _private_runs(self, exercise: Exercise) -> list[list[str]]:
        """Arguments of pytest for each run on private cases."""
        if self.cases is None:
            return []
        assert self._scratch is not None
        files = [str(file) for file in self._check_files(exercise)]
        runs = []
        for capture in sorted((self._scratch / "exchange" / "cases" / exercise.id).glob("*")):
            runs.append([*files, "-m", "recordings", f"--recording={capture}"])
        more = [
            str(self.cases / file.relative_to(self.course.root))
            for file in self._check_files(exercise)
            if (self.cases / file.relative_to(self.course.root)).is_file()
        ]
        return [*runs, more] if more else runs

    def _checks(
        self,
        submission: Submission,
        exercise: Exercise,
        arguments: list[str],
        environment: Mapping[str, str],
    ) -> Score:
        assert self._scratch is not None
        number = next(self._numbers)
        # Beside the exchange, not in it: nothing in the sandbox sees the score.
        unit = self._scratch / "units" / str(number)
        unit.mkdir(parents=True)
        score, seen = unit / "score.json", self._scratch / "exchange" / str(number)
        seen.mkdir()
        argv = [
            *arguments,
            *("-p", "grading.grader.plugin"),
            "--isolated",
            *("-q", "--tb=no", "--noconftest", "--capture=sys"),
            # With torch imported, pytest's logging plug-in costs a fifth of a run.
            *("-p", "no:logging"),
            *("-p", "no:cacheprovider", "-p", "no:unraisableexception"),
            f"--rootdir={self.course.root}",
            f"--config-file={self.course.root / 'pyproject.toml'}",
            f"--call-timeout={self.call_timeout_s:g}",
            *(["--live"] if self.live else []),
        ]
        own = [
            f"--against={submission.tree}",
            f"--score-json={score}",
            f"--basetemp={seen / 'tmp'}",
        ]
        variables = {
            "LAB_SEED": str(self.seed),
            "TMPDIR": str(unit),
            "LAB_CUDA_CACHE": str(self._scratch / "cuda"),
            **environment,
        }
        try:
            imported = self._imported_by_checks[exercise.id]
            with self.sandbox(exercise) as sandbox:
                own.append(f"--sandbox={sandbox.address}")
                done = self._server.run(
                    Job(argv, self.course.root, variables, UNIT_TIMEOUT_S, own, imported)
                )
            if done.exit_code == TIMED_OUT:
                return Score({}, f"the checks did not end within {UNIT_TIMEOUT_S:g} s", "time-out")
            if done.exit_code < 0:
                ended = f"the checks were ended by signal {-done.exit_code}"
                return Score({}, ended, "" if -done.exit_code in _ASKED_TO_END else "crash")
            try:
                found = json.loads(score.read_text(encoding="utf-8"))["tasks"]
            except (OSError, ValueError, KeyError):
                last = " ".join(done.output.strip().splitlines()[-3:])[-300:]
                return Score({}, f"the checks ended with exit code {done.exit_code}: {last}")
            # Messages are for students: no paths of this machine or of this run.
            cases = self._scratch / "exchange" / "cases"
            root = self.course.root
            folders = [seen, unit, cases, self._scratch, submission.tree, root]
            for task in found.values():
                for check in task["checks"]:
                    check["message"] = without_folders(folders, check["message"], root)
            return Score(found)
        except SandboxError as error:
            return Score({}, str(error))
        except (RuntimeError, OSError) as error:
            return Score({}, f"the checks did not run: {error}")
        finally:
            shutil.rmtree(unit, ignore_errors=True)
            shutil.rmtree(seen, ignore_errors=True)
