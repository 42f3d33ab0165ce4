"""The pytest plugin: finds the checks, binds them to tasks, and turns their outcomes into a score.

    uv run pytest                          the learner's own work
    uv run pytest --against solutions      the reference, and the proof of the course itself
    cd week07/day1_nsight_systems && uv run pytest     the checks of that exercise alone

A check whose task is still todo, is blocked by a todo, or needs what this machine lacks is reported as
such: it neither passes nor fails, and earns nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from grading.checks import commands
from grading.errors import SandboxError
from grading.runner import wire, workers
from grading.runner.access import Blocked, Journal, Stub, StubError, StubImportError, open_stub
from grading.runner.hang_guard import DEFAULT_TIMEOUT_S, HangError
from grading.runner.outcomes import CheckResult, NotGraded, Score
from profiling_lab import course as manifest
from profiling_lab import stubs
from profiling_lab.closure import users
from profiling_lab.course import Course, Exercise, Task
from profiling_lab.errors import LabError

if TYPE_CHECKING:
    from grading.proof.ahead import Ahead

LETTERS = {"todo": "t", "blocked": "b", "not run": "-", "infrastructure": "i"}
WORDS = {
    "todo": "TODO",
    "blocked": "BLOCKED",
    "not run": "NOT RUN",
    "infrastructure": "INFRASTRUCTURE",
}
COLORS = {
    "todo": {"cyan": True},
    "blocked": {"yellow": True},
    "not run": {"light": True},
    "infrastructure": {"yellow": True},
}

# What a submission may take of the grader: bytes of a message, bytes of this process, calls that were
# waited for until the limit, and the time of so many calls in all; after these the rest of its checks
# fail at once. A compiler may take as long as several calls, and a check may compute as long as
# JUDGING_CALLS of them: what came back may be made so that reading it takes for ever.
MOST_BYTES = 16 * 2**20
MOST_MEMORY_BYTES = 12 * 2**30
MOST_WAITS = 5
GPU_VARIABLES = {"CUDA_VISIBLE_DEVICES"}
OWN_FOLDERS = ("TMPDIR", "LAB_CUDA_CACHE")
MOST_CALLS = 12
COMMAND_CALLS = 5
JUDGING_CALLS = 2

session_key = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lab", "the profiling lab")
    group.addoption(
        "--against",
        metavar="TREE",
        help="judge this tree instead of your own work; 'solutions' also runs the proof",
    )
    group.addoption(
        "--live", action="store_true", help="add the checks that need this machine's GPUs"
    )
    group.addoption("--score-json", metavar="FILE", help="write the score as JSON to FILE")
    group.addoption(
        "--isolated",
        action="store_true",
        help="run the code under judgement in a process of its own, as the grader does",
    )
    group.addoption(
        "--sandbox",
        metavar="ADDRESS",
        help="with --isolated, for the grader: run that process in the sandbox at this address",
    )
    group.addoption(
        "--call-timeout",
        metavar="S",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        help="end a call of the code under judgement after S seconds (default: %(default)s)",
    )
    group.addoption("--only-task", metavar="ID", help="run only the checks of this task")
    group.addoption(
        "--only-check", metavar="NAME", help="run only the check functions of this name"
    )
    group.addoption(
        "--overlay",
        metavar="FILE",
        help="for the proof: put the definitions of FILE over the tree's file for that stub",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "task(id): the task of course.toml that a check belongs to")
    config.addinivalue_line(
        "markers", "proof: proves the course itself; runs with --against solutions"
    )
    config.addinivalue_line(
        "markers",
        "ahead(kinds): asks for runs that begin with the session, see grading.proof.ahead",
    )
    config.addinivalue_line("markers", "slurm: needs a Slurm cluster, or the means to start one")
    root = manifest.find_root(Path(config.rootpath))
    session = GradingSession(config, manifest.load(root))
    config.stash[session_key] = session
    config.args[:] = [session.checks_for(argument) for argument in config.args]


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(session_key, None)
    if session is not None:
        session.close()


class GradingSession:
    """What one run of pytest knows: the tree under judgement, opened stubs, the score."""

    def __init__(self, config: pytest.Config, course: Course) -> None:
        self.config = config
        self.course = course
        against = config.getoption("--against")
        self.tree = self._tree(against) if against else course.root
        self.is_proof = self.tree == course.root / manifest.SOLUTIONS
        overlay = config.getoption("--overlay")
        self.overlay = Path(overlay).resolve() if overlay else None
        self.is_own = self.tree == course.root and self.overlay is None
        self.score = Score(course)
        self.stubs: dict[PurePosixPath, Stub] = {}
        self.journal = Journal(course.root / ".lab" / "running.json")
        self.left_over = self.journal.left_over() if self.is_own else None
        self._capabilities: frozenset[str] | None = None
        self._todo: dict[str, bool] = {}
        self._said: set[str] = set()
        self.blocked_by: dict[str, str] = {}
        self.hung: dict[str, str] = {}
        self.causes: dict[str, str] = {}
        self.waits_count = 0
        self.spent_s = 0.0
        self.ahead: Ahead | None = None
        self.sandbox: str | None = config.getoption("--sandbox")
        self.call_timeout_s: float = config.getoption("--call-timeout")
        if self.sandbox is not None:
            commands.use_sandbox(self.sandbox, longest_s=self.call_timeout_s * COMMAND_CALLS)
            _limit_memory()
            if not config.getoption("--live"):  # the drivers of GPUs write in many places
                self._write_own_files_only()

    def _write_own_files_only(self) -> None:
        """Keep what a submission can make a check do from writing anywhere but into this run's folders.

        Where the kernel has Landlock (Linux 5.13 and later); a check gives no submission a way to write
        as it is, so this is for the one that does by mistake.
        """
        from grading.grader.sandbox import kernel

        score, temporary = (self.config.getoption(name) for name in ("--score-json", "basetemp"))
        folders = [Path(file).parent for file in (score, temporary) if file]
        folders += [Path(os.environ[name]) for name in OWN_FOLDERS if name in os.environ]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        if score and temporary:  # else somebody tries this by hand
            kernel.write_only_below([*folders, os.devnull])

    def _tree(self, against: str) -> Path:
        for base in (Path.cwd(), self.course.root):
            if (base / against).is_dir():
                return (base / against).resolve()
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
            from profiling_lab.doctor import capabilities

            self._capabilities = capabilities()
        return self._capabilities

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
        if missing := sorted(task.needs - self.capabilities):
            raise NotGraded(
                "not run", f"{task.id} needs {', '.join(missing)}, which this machine lacks"
            )

    def fail_once(self, what: str, message: str, cause: str = "") -> NoReturn:
        """Fail for something that meets many checks alike: said at the first, counted at all.

        cause: as in `CheckResult`.
        """
        if what in self._said:
            raise NotGraded("failed", message, cause)
        self._said.add(what)
        self.causes[message] = cause
        pytest.fail(message, pytrace=False)

    def fail_if_it_ended_the_process(self, task: Task) -> None:
        """Fail a check whose code ended an earlier run and has not changed since."""
        if not (self.is_own and self.left_over):
            return
        file = self.source(task.stub)
        for ended, left in self.journal.ended_in(source_hash=manifest.source_hash(file)).items():
            name = self.course.task(ended).name
            uses_it = not task.is_cuda and task.name in users(file.read_text("utf-8"), {name})
            if task.id == ended or uses_it:
                self.fail_once(f"ended by {ended}", f"{ended}: {left}")

    def fail_if_its_time_is_used_up(self) -> None:
        """Fail a check of a submission that has taken all that it may of the grader."""
        text = ""
        if self.waits_count >= MOST_WAITS:
            text = (
                f"{MOST_WAITS} calls of this file did not come back, took too much memory, "
                "or started too many processes"
            )
        elif self.spent_s >= MOST_CALLS * self.call_timeout_s:
            text = f"the checks before this one took {self.spent_s:.0f} s of this file's time"
        if self.sandbox and text:
            raise NotGraded("failed", f"not run: {text}", "time-out")

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
                todo = manifest.todo_functions(source.read_text(encoding="utf-8"))
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
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
                overlay=self.overlay if self._is_overlay_for(stub) else None,
                timeout_s=self.call_timeout_s,
                limit_bytes=MOST_BYTES if self.sandbox else wire.MAX_FRAME_BYTES,
                start_worker=self._in_sandbox(exercise, stub) if self.sandbox else workers.start,
            )
        return self.stubs[stub]

    def _in_sandbox(self, exercise: Exercise, stub: PurePosixPath) -> workers.Start:
        """How the worker of a stub is started in the sandbox: with its file and nothing else."""
        from grading.grader.sandbox import client

        address, source = self.sandbox, self.source(stub)
        assert address is not None
        # JAX hangs in a process that was forked after its backend had started.
        fresh = any("jax" in task.needs for task in exercise.tasks if task.stub == stub)
        loopback = any(task.loopback for task in exercise.tasks if task.stub == stub)
        # The folder of temporary folders is made anew by pytest, the one above it is not.
        temporary = self.config.getoption("basetemp", None)
        visible = [Path(temporary).parent] if temporary else []
        if recording := self.config.getoption("--recording"):  # a private case, for this run alone
            visible.append(Path(recording))

        def start(stream: Any, stdout: Any, stderr: Any, limit_bytes: int) -> workers.Process:
            try:
                return client.start_worker(
                    address,
                    stream=stream,
                    stdout=stdout,
                    stderr=stderr,
                    limit_bytes=limit_bytes,
                    files={str(source): source.read_bytes()},
                    visible=visible,
                    fresh=fresh,
                    loopback=loopback,
                    seed=0,  # the same at each grading, and not what the checks draw from
                    environment={
                        name: os.environ[name] for name in GPU_VARIABLES & os.environ.keys()
                    },
                )
            except Exception as error:  # whatever it is, the submission did not do it
                raise SandboxError(f"no worker: {type(error).__name__}: {error}") from error

        return start

    def _is_overlay_for(self, stub: PurePosixPath) -> bool:
        return self.overlay is not None and self.overlay.parent.name == stub.stem

    def overlaid_source(self, stub: PurePosixPath) -> Path:
        """The file to judge for a stub that is compiled: an overlay replaces it whole."""
        if self.overlay is not None and self._is_overlay_for(stub):
            return self.overlay
        return self.source(stub)

    def ran_all(self, identifier: str) -> bool:
        """Whether every check of a task ran in this session, and not a selection of them."""
        result = self.score.results[identifier]
        ran = {check.name.split("[")[0] for check in result.checks}
        return ran == bound_checks(self.course.checks(result.task.stub), identifier)

    def close(self) -> None:
        """End the workers and the runs ahead, and leave no journal behind."""
        if self.ahead is not None:
            self.ahead.close()
        for stub in self.stubs.values():
            stub.close()
        self.journal.close()


class _Overlong(HangError):
    """A check has computed for longer than it may. seconds: how long."""

    def __str__(self) -> str:
        return (
            f"this check was not done after it had computed for {self.seconds:.3g} s: what the code did, or "
            "gave back, takes too long to follow. Does a loop never end?"
        )


@contextlib.contextmanager
def _computing_at_most(seconds: float) -> Iterator[None]:
    """Raise _Overlong in the block once this process has computed for so long; to wait costs nothing."""

    def on_time(_signal: int, _frame: Any) -> None:
        overlong = _Overlong()
        overlong.seconds = seconds
        raise overlong

    old = signal.signal(signal.SIGPROF, on_time)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)  # again, if something swallows it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


def bound_checks(file: Path, identifier: str) -> set[str]:
    """The names of the check functions in a file that are bound to a task."""
    return {name for name, task in manifest.checks_in(file) if task == identifier}


def _limit_memory() -> None:
    """Keep what a submission makes this process allocate from taking the machine with it."""
    import resource  # not on Windows, where there is no sandbox

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = MOST_MEMORY_BYTES if hard < 0 else min(hard, MOST_MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


# -- collecting and running ---------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    session = config.stash[session_key]
    if not session.is_proof:
        proof = [item for item in items if item.get_closest_marker("proof")]
        if proof:
            items[:] = [item for item in items if not item.get_closest_marker("proof")]
            config.hook.pytest_deselected(items=proof)
    if only := config.getoption("--only-task"):
        kept = [item for item in items if (t := session.task_of(item)) and t.id == only]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
    _keep_only_check(config, items)
    order = {identifier: place for place, identifier in enumerate(session.course.tasks)}
    places = {}
    for item in items:
        task = session.task_of(item)
        places[item] = order[task.id] if task else len(order) + bool(_asked(item))
    # The learner's work first, in the course's order; last what waits for runs that began ahead.
    items.sort(key=lambda item: places[item])


def _asked(item: pytest.Item) -> list[tuple[str, str]]:
    """Kinds and name of the runs ahead that a test asks for."""
    marker = item.get_closest_marker("ahead")
    if marker is None or not isinstance(item, pytest.Function):
        return []
    name = str(next(iter(item.callspec.params.values())))
    return [(kind, name) for kind in marker.args]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Begin the runs that tests of this session ask for."""
    asked = dict.fromkeys(run for item in session.items for run in _asked(item))
    if asked and not session.config.option.collectonly:
        from grading.proof.ahead import Ahead

        grading = session.config.stash[session_key]
        grading.ahead = Ahead(grading.course, list(asked))


def _keep_only_check(config: pytest.Config, items: list[pytest.Item]) -> None:
    if only := config.getoption("--only-check"):
        others = [item for item in items if only not in (item.name, item.name.split("[")[0])]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def begin_anew(session: pytest.Session) -> None:
    """Go on with a session whose options have changed after its checks were collected."""
    config = session.config
    config.stash[session_key].close()
    config.stash[session_key] = GradingSession(config, config.stash[session_key].course)
    _keep_only_check(config, session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    session = item.config.stash[session_key]
    task = session.task_of(item)
    if task is not None:
        session.gate(task)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    session = item.config.stash[session_key]
    task = session.task_of(item)
    if task is None:
        return (yield)
    session.fail_if_it_ended_the_process(task)
    if task.id in session.hung:  # each further check would wait as long
        raise NotGraded("failed", session.hung[task.id], "time-out")
    session.fail_if_its_time_is_used_up()
    started = time.monotonic()
    if session.is_own:
        session.journal.enter(
            exercise=task.exercise,
            task=task.id,
            check=item.name,
            source_hash=manifest.source_hash(session.source(task.stub)),
            source=session.source(task.stub),
        )
    most_s = session.call_timeout_s * JUDGING_CALLS
    try:
        with _computing_at_most(most_s) if session.sandbox else contextlib.nullcontext():
            return (yield)
    except (Blocked, StubError) as error:
        stopped = error
    except _Overlong as error:
        stopped = StubError(str(error), cause="time-out")
    except SandboxError as error:
        raise NotGraded("infrastructure", str(error)) from None
    except pytest.fail.Exception as failure:
        if failure.pytrace:
            raise
        stopped = failure
    finally:
        session.spent_s += time.monotonic() - started
        if session.is_own:
            session.journal.leave()
    # Outside of the handler, so that pytest shows one message and not a chain of two.
    if isinstance(stopped, Blocked):
        session.blocked_by[task.id] = stopped.task
        raise NotGraded("blocked", f"{task.id} is blocked by {stopped.task}, still to do")
    cause = stopped.cause if isinstance(stopped, StubError) else ""
    if isinstance(stopped, StubImportError):
        session.fail_once(f"import of {task.stub}", str(stopped), cause)
    if cause in ("time-out", "memory", "processes"):
        session.waits_count += 1
    if cause == "time-out":
        session.hung[task.id] = str(stopped)
    session.fail_once(f"{task.id}: {stopped}", str(stopped), cause)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Any:
    report = yield
    session = item.config.stash[session_key]
    task = session.task_of(item)
    if call.excinfo is not None and isinstance(call.excinfo.value, NotGraded):
        report.lab_outcome = call.excinfo.value.outcome
    if task is None:
        return report
    outcome = report.outcome
    message = cause = ""
    if call.excinfo is not None:
        message = str(call.excinfo.value)
        cause = session.causes.get(message, "")
        if isinstance(call.excinfo.value, NotGraded):
            outcome, cause = call.excinfo.value.outcome, call.excinfo.value.cause
        elif report.outcome == "skipped":
            # A check that skips by itself would be a verdict that nobody gave.
            report.outcome = outcome = "failed"
            report.longrepr = f"{item.name} skipped itself ({message}); checks may not skip"
    report.lab_outcome = outcome
    if report.when == "call" or outcome != "passed":
        session.score.add(task, CheckResult(item.name, outcome, message, call.duration, cause))
    return report


def pytest_report_teststatus(report: Any, config: pytest.Config) -> Any:
    outcome = getattr(report, "lab_outcome", None)
    if outcome == "failed" and report.outcome == "skipped":
        return "failed alike", "f", ("FAILED ALIKE", {"red": True})
    if outcome in LETTERS:
        return outcome, LETTERS[outcome], (WORDS[outcome], COLORS[outcome])
    return None


def pytest_report_header(config: pytest.Config) -> str:
    session = config.stash[session_key]
    judged = session.show(session.tree) if not session.is_own else "your own work"
    return f"profiling lab: judging {judged}" + (
        " in a process of its own" if config.getoption("--isolated") else ""
    )


# -- fixtures -------------------------------------------------------------------------------------


@pytest.fixture
def stub(request: pytest.FixtureRequest) -> Stub:
    """The learner's functions, reached as `stub.name(args)`."""
    session = request.config.stash[session_key]
    task = session.task_of(request.node)
    assert task is not None, "a check that uses `stub` must be bound to a task"
    return session.open(session.course.exercise(task.exercise), task.stub)


@pytest.fixture
def cuda_stub(request: pytest.FixtureRequest) -> CudaStub:
    """The learner's CUDA source file."""
    session = request.config.stash[session_key]
    task = session.task_of(request.node)
    assert task is not None, "a check that uses `cuda_stub` must be bound to a task"
    given = session.course.root / task.stub.parent
    return CudaStub(session.overlaid_source(task.stub), given)


@pytest.fixture(scope="session")
def ahead(pytestconfig: pytest.Config) -> Ahead:
    """`ahead("reference", "ex_30")`: what a run came to that a mark of this name asked for."""
    return pytestconfig.stash[session_key].ahead


class CudaStub:
    """A CUDA source under judgement. source: the file. given: the folder of the given sources."""

    def __init__(self, source: Path, given: Path) -> None:
        self.source = source
        self.given = given


# -- score ----------------------------------------------------------------------------------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    grading = session.config.stash[session_key]
    if not grading.score.results:
        return
    if file := session.config.getoption("--score-json"):
        more = {}
        if session.config.getoption("--live"):
            from grading.proof import live

            more["live_run"] = live.provenance(grading.course, grading.score.exercises())
        grading.score.write(Path(file), **more)
    if grading.is_own:
        remember(grading)


def remember(grading: GradingSession) -> None:
    """Keep the verdicts where `lab` finds them, each with the hash of the source it judged."""
    from profiling_lab import progress

    progress.update(
        grading.course,
        {
            identifier: (result.outcome, [c.message for c in result.checks if c.message][:1])
            for identifier, result in grading.score.results.items()
        },
        complete={
            identifier for identifier in grading.score.results if grading.ran_all(identifier)
        },
    )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    grading = config.stash[session_key]
    if grading.left_over is not None:
        terminalreporter.write_line("")
        terminalreporter.write_line(
            f"The run before this one ended inside {grading.left_over.check} "
            f"({grading.left_over.describe()}): the code of {grading.left_over.exercise} ended the "
            "process.",
            yellow=True,
        )
    if not grading.score.results or config.getoption("--overlay"):
        return
    terminalreporter.section("score")
    for line, style in score_lines(grading):
        terminalreporter.write_line(line, **style)


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
            name = task.name + (" (live)" if task.live else "")
            outcome = result.outcome
            line = (
                f"  {name:<26} {outcome:<8} {result.earned:>2} of {task.points:>2} points  {checks}"
            )
            if task.id in grading.blocked_by:
                line += f"  needs {grading.blocked_by[task.id].split('.')[-1]}"
            lines.append((line, styles[outcome]))
            if outcome == "not run":
                reason = next((check.message for check in result.checks if check.message), "")
                lines += [(f"    {row}", {}) for row in reason.splitlines()[:1]]
            if outcome == "todo" and task.is_cuda and not task.live and grading.is_begun(task):
                lines.append((f"    its TODO line still stands in {task.stub.name}: remove it", {}))
    totals = score.totals()
    summary = f"{totals['earned']} of {totals['possible']} points gradable here"
    if totals["not_run"]:
        summary += f", {totals['not_run']} not run"
    live = score.totals(live=True)
    if live["possible"]:
        summary += f"; live: {live['earned']} of {live['possible']}"
    elif live["not_run"]:
        summary += f"; {live['not_run']} live points not run"
    lines.append((summary, {"bold": True}))
    if grading.is_own:
        following = score.next_task()
        if following is not None and following.id in grading.blocked_by:
            following = grading.course.tasks[grading.blocked_by[following.id]]
        if following is None:
            lines.append(("Next: uv run lab    (shows what else there is)", {}))
        else:
            exercise = grading.course.exercise(following.exercise)
            lesson = grading.show(grading.course.lesson(exercise))
            lines.append((f"Next: {following.id}, {following.title}", {}))
            lines.append(
                (f"      read {lesson}, write {following.name} in {following.stub.name}", {})
            )
            lines.append((f"      stuck? uv run lab hint {following.id}", {}))
    return lines
