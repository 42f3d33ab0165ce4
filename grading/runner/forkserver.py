"""Runs pytest in children that are forked from a template, where the libraries are imported once.

Importing pytest, numpy and polars takes about 0.7 s, torch three more; a forked child has them at
once. There is a template for each set of modules that jobs name (`grading.runner.preload`), started when it is
first asked for. A template never runs learner code and stays single-threaded, because a lock that another
thread holds at the moment of the fork is never released in the child:

- jemalloc inside polars starts threads of its own at import, which `_RJEM_MALLOC_CONF` turns off;
- OpenBLAS starts its threads at import, so the template has one BLAS thread;
- the thread pool of polars starts with the first query, of which there are none here. What is
  left is one sleeping thread (`polars-ooc-cleaner`), which a child does without.

Jobs that differ in a few options only may share a session that stands ready (`grading.runner.collected_session`): forked from
the template, it reads the check files once, and each job is a fork of it.

Where there is no fork, or where it is not safe after these imports (macOS), each job is a process
of its own: slower, otherwise the same.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from grading.runner import processors, wire
from grading.runner.fork_per_job import TIMED_OUT, changed_ns
from grading.runner.learner_side import Connection
from grading.runner.pools import Pool
from grading.runner.preload import SUBMISSIONS

PRELOAD = ("pytest", *SUBMISSIONS, "grading.runner.stubs", "profiling_lab.course.manifest")
POLARS_THREADS = 2
MOST_READY = 64  # sessions that stand ready at the same time; each holds some megabytes
MOST_TEMPLATES = 2  # at the same time while they have no job; each holds up to half a gigabyte
_ROOT = Path(__file__).resolve().parents[2]
_TEMPLATE_ENVIRONMENT = {
    "_RJEM_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Job:
    """One run of pytest.

    argv: its arguments. cwd: the folder to run in, this process's by default. env: changes to the
    environment, None removes a variable. timeout_s: then it is killed, with exit code 124. own: further
    options, as "--name=value", in which it differs from other jobs of the same argv and cwd: then they share
    a session that stands ready. What is read while checks are collected may not differ between them.
    preload: modules that its template has imported besides the server's own.
    """

    argv: Sequence[str]
    cwd: Path | str | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)
    timeout_s: float = 600.0
    own: Sequence[str] = ()
    preload: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """How a job ended.

    exit_code: pytest's, or minus the signal that ended the child, or 124. seconds: wall time from
    fork to end. output: stdout and stderr together. max_rss_bytes: its peak memory, 0 if unknown.
    """

    exit_code: int
    seconds: float
    output: str
    max_rss_bytes: int = 0


class ForkServer:
    """The client: starts templates when jobs need them and ends them with the block.

    preload: modules to import in each template besides PRELOAD ("torch"); absent ones are left out.
    parallel: jobs that run at the same time. mode: "fork", "subprocess", or "auto".
    """

    def __init__(
        self, preload: Iterable[str] = (), *, parallel: int = 2, mode: str = "auto"
    ) -> None:
        if mode == "auto":
            # Accelerate and Objective-C do not survive a fork without exec.
            forks = hasattr(os, "fork") and sys.platform not in ("darwin", "win32")
            mode = "fork" if forks else "subprocess"
        self.mode = mode
        self.parallel = parallel
        self.preload = tuple(dict.fromkeys((*PRELOAD, *preload)))
        self._slots: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        for slot in processors.one_each(parallel):
            self._slots.put(slot)
        self._templates = Pool(
            self._start_template, most=MOST_TEMPLATES, is_good=_Template.is_fresh
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self, preload: tuple[str, ...] = ()) -> None:
        """Start the template for jobs with this `preload` now and wait until it has imported everything."""
        if self.mode == "fork":
            with self._templates.use(preload) as template:
                template.wait_ready()

    def run(
        self,
        argv: Sequence[str] | Job,
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float = 600.0,
    ) -> Result:
        """Run one job and wait for it. May be called from several threads."""
        job = argv if isinstance(argv, Job) else Job(list(argv), cwd, env or {}, timeout_s)
        with self._slot() as slot, tempfile.TemporaryFile() as output:
            if self.mode != "fork":
                code, seconds, rss = _run_in_subprocess(job, output)
            else:
                with self._templates.use(job.preload) as template:
                    code, seconds, rss = template.run_job(job, output.fileno(), slot)
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        return Result(code, seconds, text, rss)

    def run_all(self, jobs: Iterable[Job]) -> list[Result]:
        """Run jobs, `parallel` at a time; the results in the order of the jobs."""
        with ThreadPoolExecutor(self.parallel) as pool:
            return list(pool.map(self.run, jobs))

    def run_as_completed(self, jobs: Mapping[Any, Job]) -> Iterable[tuple[Any, Result]]:
        """Run jobs, `parallel` at a time; (key, result) as each ends."""
        with ThreadPoolExecutor(self.parallel) as pool:
            futures: dict[Future[Result], Any] = {
                pool.submit(self.run, job): key for key, job in jobs.items()
            }
            for future in as_completed(futures):
                yield futures[future], future.result()

    @contextlib.contextmanager
    def _slot(self) -> Iterator[list[int]]:
        """One of the `parallel` places to run in: the processors of the job there."""
        slot = self._slots.get()
        try:
            yield slot
        finally:
            self._slots.put(slot)

    def close(self) -> None:
        """End the templates; running jobs are killed."""
        self._templates.close()

    def _start_template(self, preload: tuple[str, ...]) -> _Template:
        return _Template(tuple(dict.fromkeys((*self.preload, *preload))))


class _Server:
    """The client's end of a process that forks itself for each job."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.connection = Connection(stream, wire.MAX_FRAME_BYTES)
        self.sending = threading.Lock()
        self.waiting: dict[int, Future] = {}
        self.ready: Future[dict[str, int]] = Future()
        self.closed = False
        self.next_number = 0
        threading.Thread(target=self._receive, name="fork-server", daemon=True).start()

    def wait_ready(self) -> dict[str, int]:
        return self.ready.result()

    def is_alive(self) -> bool:
        return not self.closed

    def is_fresh(self) -> bool:
        """Whether it lives, and the harness's files are still those that it has imported."""
        if not self.is_alive():
            return False
        if not self.ready.done():
            return True
        return self.ready.exception() is None and all(
            changed_ns(file) == changed for file, changed in self.ready.result().items()
        )

    def run(
        self, job: Job, argv: Sequence[str], output: int, slot: list[int]
    ) -> tuple[int, float, int]:
        self.wait_ready()
        future: Future[list] = Future()
        with self.sending:
            if self.closed:
                raise RuntimeError("the fork server has ended")
            self.next_number += 1
            number = self.next_number
            self.waiting[number] = future
            # The whole environment: this process's may have changed since the start.
            request = [*_place(job), number, list(map(str, argv)), job.timeout_s, slot]
            socket.send_fds(self.stream, [b"j"], [output])
            self.connection.send(wire.pack(request))
        code, seconds, rss = future.result()
        return code, seconds, rss

    def _receive(self) -> None:
        error: BaseException = RuntimeError("the fork server has ended")
        try:
            self.ready.set_result(wire.unpack(self.connection.receive()))
            while True:
                number, *rest = wire.unpack(self.connection.receive())
                self.waiting.pop(number).set_result(rest)
        except (EOFError, OSError):
            pass
        except BaseException as unexpected:  # noqa: BLE001 -- handed to those who wait
            error = unexpected
        with self.sending:
            self.closed = True
        if not self.ready.done():
            self.ready.set_exception(error)
        for future in list(self.waiting.values()):
            future.set_exception(error)

    def close(self) -> None:
        self.closed = True
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_RDWR)


class _Template(_Server):
    """The client's end of a template process."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        ours, theirs = socket.socketpair()
        path = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "grading.runner.fork_template"),
                    *("--fd", str(theirs.fileno()), *preload),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | _TEMPLATE_ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(path)},
                start_new_session=True,
            )
        super().__init__(ours)
        self._ready: dict[tuple[str, ...], _Ready] = {}
        self._old: list[_Ready] = []
        self._choosing = threading.Lock()

    def is_alive(self) -> bool:
        return not self.closed and self.process.poll() is None

    def run_job(self, job: Job, output: int, slot: list[int]) -> tuple[int, float, int]:
        """Run a job, in a session that stands ready if there can be one."""
        if (ready := self._session(job)) is not None:
            return ready.run(job, job.own, output, slot)
        return self.run(job, [*job.argv, *job.own], output, slot)

    def _session(self, job: Job) -> _Ready | None:
        """The session that stands ready for a job; None if there can be none."""
        if not job.own:
            return None
        key = (str(job.cwd), *map(str, job.argv))
        with self._choosing:
            ready = self._ready.pop(key, None)
            if ready is not None and not ready.is_fresh():
                self._old.append(ready)  # until its jobs have ended
                ready = None
            for old in [one for one in self._old if not one.waiting]:
                self._old.remove(old)
                old.close()
            if ready is None:
                ready = _Ready(self, job)
            self._ready[key] = ready  # the last one used comes last
            if len(self._ready) > MOST_READY:
                for other, oldest in list(self._ready.items())[:-1]:
                    if not oldest.waiting:
                        self._ready.pop(other).close()
                        break
        return ready if ready.stands() else None

    def fork(self, job: Job, stream: socket.socket) -> None:
        """Have it fork a session that stands ready at the other end of `stream`."""
        self.wait_ready()
        with self.sending:
            socket.send_fds(self.stream, [b"r"], [stream.fileno()])
            self.connection.send(wire.pack([*_place(job), 0, list(map(str, job.argv)), 0.0, []]))

    def close(self) -> None:
        for ready in (*self._old, *self._ready.values()):
            ready.close()
        self._old.clear()
        self._ready.clear()
        super().close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stream.close()


class _Ready(_Server):
    """The client's end of a session that stands ready."""

    def __init__(self, template: _Template, job: Job) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            template.fork(job, theirs)
        super().__init__(ours)

    def stands(self) -> bool:
        """Whether it could be made: not if its checks cannot be collected."""
        try:
            self.wait_ready()
        except RuntimeError:
            return False
        return not self.closed


def _place(job: Job) -> tuple[str, dict[str, str]]:
    return str(job.cwd or os.getcwd()), _environment(job)


def _environment(job: Job) -> dict[str, str]:
    environment = dict(os.environ)
    environment["POLARS_MAX_THREADS"] = str(POLARS_THREADS)
    # Plugins of other packages (jupyter brings one that costs 0.2 s a run) have no part in a check.
    environment.setdefault("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for key, value in job.env.items():
        if value is None:
            environment.pop(key, None)
        else:
            environment[key] = value
    return environment


def _run_in_subprocess(job: Job, output: Any) -> tuple[int, float, int]:
    started = time.perf_counter()
    environment = _environment(job)
    path = [str(_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pytest", *map(str, job.argv), *job.own],
        cwd=job.cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        code = process.wait(job.timeout_s)
    except subprocess.TimeoutExpired:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
        code = TIMED_OUT
    return code, time.perf_counter() - started, 0
