"""The pytest plugin: finds the checks, binds them to tasks, and turns their outcomes into a score.

    uv run pytest                          the learner's own work
    uv run pytest --against solutions      the reference, and the proof of the course itself
    cd week07/day1_nsight_systems && uv run pytest     the checks of that exercise alone

A check whose task is still todo, is blocked by a todo, or needs what this machine lacks is reported as
such: it neither passes nor fails, and earns nothing.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import ExceptionRepr

from grading.runner import alike
from grading.runner.disguise import meant
from grading.runner.failures import Blocked, StubError, StubImportError
from grading.runner.hang_guard import DEFAULT_TIMEOUT_S
from grading.runner.learner_side import GC_THRESHOLDS
from grading.runner.scoring import CheckResult, NotGraded, require
from grading.runner.session import GradingSession, Hooks, session_key
from grading.runner.stubs import Stub
from grading.runner.summary import COLORS, lacking_lines, score_lines
from profiling_lab.course import manifest, progress

LETTERS = {"todo": "t", "blocked": "b", "not run": "-", "infrastructure": "i"}
WORDS = {
    "todo": "TODO",
    "blocked": "BLOCKED",
    "not run": "NOT RUN",
    "infrastructure": "INFRASTRUCTURE",
}


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


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
        "--call-timeout",
        metavar="S",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        help="end a call of the code under judgement after S seconds (default: %(default)s)",
    )
    group.addoption(
        "--partial",
        action="store_true",
        help="with --against solutions: what cannot run without further groups fails nothing",
    )
    group.addoption("--only-task", metavar="ID", help="run only the checks of this task")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "task(id): the task of course.toml that a check belongs to")
    config.addinivalue_line(
        "markers", "needs(names): what a test needs besides the base, as in needs.GROUPS"
    )
    config.addinivalue_line("markers", "slurm: needs a Slurm cluster, or the means to start one")
    gc.set_threshold(*GC_THRESHOLDS)
    # Set, it makes `@triton.jit` rewrite kernels at import. The checks choose the interpreter themselves.
    os.environ.pop("TRITON_INTERPRET", None)
    root = manifest.find_root(Path(config.rootpath))
    session = GradingSession(config, manifest.load(root))
    config.stash[session_key] = session
    config.args[:] = [session.checks_for(argument) for argument in config.args]


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(session_key, None)
    if session is not None:
        session.close()


# -- collecting and running ---------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    session = config.stash[session_key]
    if only := config.getoption("--only-task"):
        kept = [item for item in items if (t := session.task_of(item)) and t.id == only]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
    order = {identifier: place for place, identifier in enumerate(session.course.tasks)}
    tasks = {item: session.task_of(item) for item in items}
    # The learner's work first, in the course's order.
    items.sort(key=lambda item: order[task.id] if (task := tasks[item]) else len(order))


def begin_anew(session: pytest.Session) -> None:
    """Go on with a session whose options have changed after its checks were collected."""
    config = session.config
    config.stash[session_key].close()
    config.stash[session_key] = GradingSession(config, config.stash[session_key].course)
    config.hook.pytest_collection_modifyitems(session=session, config=config, items=session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    session = item.config.stash[session_key]
    task = session.task_of(item)
    for mark in item.iter_markers("needs"):
        require(*mark.args)
    if task is not None:
        session.gate(task)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    session = item.config.stash[session_key]
    task = session.task_of(item)
    if task is None:
        return (yield)
    session.fail_if_it_ended_the_process(task, item.nodeid)
    if task.id in session.hung:  # each further check would wait as long
        raise NotGraded("failed", session.hung[task.id], "time-out")
    if session.is_own:
        session.journal.enter(
            exercise=task.exercise,
            task=task.id,
            check=item.name,
            source_hash=manifest.source_hash(session.source(task.stub)),
            source=session.source(task.stub),
        )
    failed = ""
    try:
        return (yield)
    except (Blocked, StubError) as error:
        stopped = error
    except pytest.fail.Exception as failure:
        if failure.pytrace:
            raise
        stopped = failure
    except AssertionError as error:
        error.args = tuple(meant(one) if isinstance(one, str) else one for one in error.args)
        session.fail_if_said(item.nodeid, str(error), _reason(item, str(error)))
        if not (failed := alike.own_words(str(error))):
            raise
        stopped = error
    finally:
        if session.is_own:
            session.journal.leave()
    # Outside of the handler, so that pytest shows one message and not a chain of two.
    if failed:
        pytest.fail(failed, pytrace=False)
    if isinstance(stopped, Blocked):
        session.blocked_by[task.id] = stopped.task
        raise NotGraded("blocked", f"{task.id} is blocked by {stopped.task}, still to do")
    cause = stopped.cause if isinstance(stopped, StubError) else ""
    message = meant(str(stopped))
    if isinstance(stopped, StubImportError):
        session.fail_once(item.nodeid, message, f"import of {task.stub}", cause=cause)
    if cause == "time-out":
        session.hung[task.id] = message
    what = [f"{task.id}: {message}", _reason(item, message)]
    if isinstance(stopped, StubError) and stopped.report is not None:
        # The same crash in another check has another call in its message.
        what.append(f"{task.id}: {alike.shape(message)}")
    session.fail_once(item.nodeid, message, *what, cause=cause)


def _reason(item: pytest.Item, message: str) -> str:
    """What a check says, whatever the case: other cases of it that say the same fail alike."""
    return f"{alike.function(item.nodeid)}: {alike.shape(message)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Any:
    report = yield
    session = item.config.stash[session_key]
    task = session.task_of(item)
    if call.excinfo is not None and isinstance(call.excinfo.value, NotGraded):
        report.lab_outcome = call.excinfo.value.outcome
        report.lab_missing = sorted(call.excinfo.value.missing)
        session.note_lacking(task.id if task else item.nodeid, report.lab_missing)
    if task is None:
        return report
    outcome = report.outcome
    message = cause = ""
    if call.excinfo is not None:
        message = meant(str(call.excinfo.value))
        cause = session.causes.get(message, "")
        if isinstance(call.excinfo.value, NotGraded):
            outcome, cause = call.excinfo.value.outcome, call.excinfo.value.cause
        elif report.outcome == "skipped":
            # A check that skips by itself would be a verdict that nobody gave.
            report.outcome = outcome = "failed"
            report.longrepr = f"{item.name} skipped itself ({message}); checks may not skip"
    report.lab_outcome = outcome
    if report.outcome == "failed":
        session.failures[item.nodeid] = report
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
    return CudaStub(session.source(task.stub), given)


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
    for check, others in grading.further.items():
        if report := grading.failures.get(check):
            _add(report, alike.further([alike.named(other, check) for other in others]))
    if file := session.config.getoption("--score-json"):
        grading.score.write(Path(file), **grading.more_of_score)
    if grading.is_own:
        remember(grading)


def _add(report: pytest.TestReport, words: str) -> None:
    """Words below the message of a failure."""
    if isinstance(report.longrepr, str):
        report.longrepr += f"\n{words}"
    elif isinstance(report.longrepr, ExceptionRepr):
        report.longrepr.addsection(words, "")


def remember(grading: GradingSession) -> None:
    """Keep the verdicts where `lab` finds them, each with the hash of the source it judged."""
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
    if grading.overlay:
        return
    if grading.score.results:
        terminalreporter.section("score")
        for line, style in score_lines(grading):
            terminalreporter.write_line(line, **style)
    for line in lacking_lines(grading):
        terminalreporter.write_line(line, yellow=True)
