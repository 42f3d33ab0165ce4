"""The grader's own pytest plugin: stubs and commands in the sandbox, and what a submission may take.

`grading.grader.judge` runs the checks with it: `-p grading.grader.plugin --isolated --sandbox ADDRESS`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from grading.checks import commands, queries
from grading.errors import SandboxError
from grading.grader.sandbox import client, kernel
from grading.runner import worker_processes
from grading.runner.failures import StubError, StubImportError
from grading.runner.hang_guard import HangError
from grading.runner.scoring import NotGraded
from grading.runner.session import GradingSession, session_key
from profiling_lab.course.manifest import Exercise

# What a submission may take of the grader: bytes of a message, bytes of this process, calls that were
# waited for until the limit, and the time of so many calls in all; after these the rest of its checks
# fail at once. A compiler may take as long as several calls, and a check may compute as long as
# JUDGING_CALLS of them: what came back may be made so that reading it takes for ever.
MOST_BYTES = 16 * 2**20
MOST_MEMORY_BYTES = 12 * 2**30
MOST_WAITS = 5
MOST_CALLS = 12
COMMAND_CALLS = 5
JUDGING_CALLS = 2
GPU_VARIABLES = {"CUDA_VISIBLE_DEVICES"}
OWN_FOLDERS = ("TMPDIR", "LAB_CUDA_CACHE")
# What a command in the sandbox is told of this process's environment.
PASSED_ON = ("PATH", "CUDA_VISIBLE_DEVICES", "CUBLAS_LIBRARY")


class _Submission:
    """What a submission has taken so far. address: of its sandbox. is_late: a command of this check was ended."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_late = False
        self.waits_count = 0
        self.spent_s = 0.0


_submission_key = pytest.StashKey[_Submission | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("lab grader", "the grader of the profiling lab").addoption(
        "--sandbox",
        metavar="ADDRESS",
        help="with --isolated: run the code under judgement in the sandbox at this address",
    )


def pytest_judging_begins(judging: GradingSession) -> None:
    config = judging.config
    address = config.getoption("--sandbox")
    submission = _Submission(address) if address else None
    config.stash[_submission_key] = submission
    if not submission:  # a session that stands ready, and has no submission yet
        return
    address = submission.address
    judging.limit_bytes = MOST_BYTES
    judging.starts_workers = lambda exercise, stub: _worker_start(judging, address, exercise, stub)
    commands.run_elsewhere(_Commands(submission, judging.call_timeout_s * COMMAND_CALLS))
    queries.allow(judging.call_timeout_s)
    _limit_memory()
    if not config.getoption("--live"):  # the drivers of GPUs write in many places
        _write_own_files_only(config)


def _limit_memory() -> None:
    """Keep what a submission makes this process allocate from taking the machine with it."""
    import resource  # not on Windows, where there is no sandbox

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = MOST_MEMORY_BYTES if hard < 0 else min(hard, MOST_MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _write_own_files_only(config: pytest.Config) -> None:
    """Keep what a submission can make a check do from writing anywhere but into this run's folders.

    Where the kernel has Landlock (Linux 5.13 and later); a check gives no submission a way to write
    as it is, so this is for the one that does by mistake.
    """
    score, temporary = (config.getoption(name) for name in ("--score-json", "basetemp"))
    folders = [Path(file).parent for file in (score, temporary) if file]
    folders += [Path(os.environ[name]) for name in OWN_FOLDERS if name in os.environ]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    if score and temporary:  # else somebody tries this by hand
        kernel.write_only_below([*folders, os.devnull])


# -- what runs in the sandbox -------------------------------------------------------------------------


def _worker_start(
    judging: GradingSession, address: str, exercise: Exercise, stub: PurePosixPath
) -> worker_processes.Start:
    """How the worker of a stub is started in the sandbox: with its file and nothing else."""
    config, source = judging.config, judging.source(stub)
    # JAX hangs in a process that was forked after its backend had started.
    fresh = any("jax" in task.needs for task in exercise.tasks if task.stub == stub)
    loopback = any(task.loopback for task in exercise.tasks if task.stub == stub)
    # The folder of temporary folders is made anew by pytest, the one above it is not.
    temporary = config.getoption("basetemp", None)
    visible = [Path(temporary).parent] if temporary else []
    if recording := config.getoption("--recording"):  # a private case, for this run alone
        visible.append(Path(recording))

    def start(stream: Any, stdout: Any, stderr: Any, limit_bytes: int) -> worker_processes.Process:
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
                environment={name: os.environ[name] for name in GPU_VARIABLES & os.environ.keys()},
            )
        except Exception as error:  # whatever it is, the submission did not do it
            raise SandboxError(f"no worker: {type(error).__name__}: {error}") from error

    return start


class _Commands:
    """Runs commands of checks in a submission's sandbox, none for longer than longest_s."""

    def __init__(self, submission: _Submission, longest_s: float) -> None:
        self.submission = submission
        self.longest_s = longest_s

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        files: Mapping[str, bytes],
        keep: Iterable[str],
        readable: Iterable[Path],
        environment: Mapping[str, str] | None,
        loopback: bool,
    ) -> commands.Completed:
        own = {"PATH": os.defpath} | {n: os.environ[n] for n in PASSED_ON if n in os.environ}
        done = client.run(
            self.submission.address,
            argv,
            files=dict(files),
            readable=list(readable),
            environment=dict(own if environment is None else environment),
            timeout_s=min(timeout_s, self.longest_s),
            keep=list(keep),
            loopback=loopback,
        )
        self.submission.is_late |= done.cause == "time-out"
        return commands.Completed(
            done.returncode,
            done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
            dict(done.files),
            done.cause,
        )


# -- what a submission may take -----------------------------------------------------------------------


class _Overlong(HangError):
    """A check has computed for longer than it may. seconds: how long."""

    seconds = 0.0

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


@pytest.hookimpl(wrapper=True, trylast=True)  # inside of what words the failures of every stub
def pytest_runtest_call(item: pytest.Item) -> Any:
    judging, submission = item.config.stash[session_key], item.config.stash[_submission_key]
    if submission is None or judging.task_of(item) is None:
        return (yield)
    _fail_if_its_time_is_used_up(submission, judging.call_timeout_s)
    started = time.monotonic()
    submission.is_late = False
    try:
        with _computing_at_most(judging.call_timeout_s * JUDGING_CALLS):
            return (yield)
    except _Overlong as error:
        submission.waits_count += 1
        raise StubError(str(error), cause="time-out") from None
    except StubError as error:
        waited = error.cause in ("time-out", "memory", "processes")
        submission.waits_count += waited and not isinstance(error, StubImportError)
        raise
    except pytest.fail.Exception as failure:
        if not submission.is_late:
            raise
        # As after a call: the task's other checks would wait as long for the same program.
        submission.waits_count += 1
        raise StubError(str(failure), cause="time-out") from None
    except SandboxError as error:
        raise NotGraded("infrastructure", str(error)) from None
    finally:
        submission.spent_s += time.monotonic() - started


def _fail_if_its_time_is_used_up(submission: _Submission, call_timeout_s: float) -> None:
    """Fail a check of a submission that has taken all that it may of the grader."""
    text = ""
    if submission.waits_count >= MOST_WAITS:
        text = (
            f"{MOST_WAITS} calls of this file did not come back, took too much memory, "
            "or started too many processes"
        )
    elif submission.spent_s >= MOST_CALLS * call_timeout_s:
        text = f"the checks before this one took {submission.spent_s:.0f} s of this file's time"
    if text:
        raise NotGraded("failed", f"not run: {text}", "time-out")
