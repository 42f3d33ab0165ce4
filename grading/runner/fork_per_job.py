"""Forks this process for each job that comes in through a socket, until the other side closes.

The template of `grading.runner.forkserver` does so, and each session that stands ready (`grading.runner.collected_session`).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grading.runner import processors, wire
from grading.runner.learner_side import Connection

TIMED_OUT = 124
ENDING_S = 3.0  # less than the client waits before it kills a template
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class _Child:
    number: int  # 0: a session that stands ready, which no time limit ends
    started: float
    deadline: float
    timed_out: bool = False


class Forked(BaseException):
    """Raised out of `serve` in the child that it has forked: what this process is to do now.

    kind: b"j" for a job, b"r" for a session that stands ready.
    """

    def __init__(self, kind: bytes, request: list, descriptor: int) -> None:
        super().__init__()
        self.kind = kind
        self.cwd, self.environment, _, self.argv, _, self.processors = request
        self.descriptor = descriptor

    def enter(self, output: int) -> None:
        """Become the job: a process of a group of its own, in its folder, with its environment."""
        os.setsid()  # so that a timeout ends what it started as well
        processors.stay_on(self.processors)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.chdir(self.cwd)
        os.environ.clear()
        os.environ.update(self.environment)
        tempfile.tempdir = None
        for entry in reversed(self.environment.get("PYTHONPATH", "").split(os.pathsep)):
            if entry and entry not in sys.path:
                sys.path.insert(0, entry)


def serve(
    stream: socket.socket, folder: Path = _ROOT, before: Callable[[], None] = lambda: None
) -> None:
    """Fork a child for each job until the client closes; report each child's end.

    In the child `Forked` is raised. folder: whose modules it tells of, besides this repository's. before: is
    called before each fork.
    """
    connection = Connection(stream, wire.MAX_FRAME_BYTES)
    connection.send(wire.pack(_harness_files(folder)))
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    children: dict[int, _Child] = {}
    try:
        while True:
            now = time.perf_counter()
            soonest = min(
                (c.deadline for c in children.values() if c.number and not c.timed_out),
                default=None,
            )
            wait = None if soonest is None else max(soonest - now, 0.0)
            readable, _, _ = select.select([stream.fileno(), wake_read], [], [], wait)
            if wake_read in readable:
                os.read(wake_read, 4096)
            _reap(children, connection)
            for pid, child in children.items():
                late = child.number and time.perf_counter() >= child.deadline
                if late and not child.timed_out:
                    child.timed_out = True
                    _kill(pid)
            if stream.fileno() in readable:
                before()
                _start(stream, connection, children, (wake_read, wake_write))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        for pid, child in children.items():
            if child.number:  # a session that stands ready ends with its own client's end
                _kill(pid)
        if children:
            _wait_for_all()


def _start(
    stream: socket.socket,
    connection: Connection,
    children: dict[int, _Child],
    wake: tuple[int, int],
) -> None:
    head, descriptors, _, _ = socket.recv_fds(stream, 1, 1)
    if not head:
        raise EOFError
    request = wire.unpack(connection.receive())
    _, _, number, _, timeout_s, _ = request
    started = time.perf_counter()
    with warnings.catch_warnings():
        # Python 3.12 and later count the one sleeping thread that grading.runner.forkserver names.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in wake:
            os.close(descriptor)
        stream.close()
        children.clear()  # they are its siblings now
        raise Forked(head, request, descriptors[0])
    os.close(descriptors[0])
    children[pid] = _Child(number, started, started + timeout_s)


def _reap(children: dict[int, _Child], connection: Connection) -> None:
    while children:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        child = children.pop(pid, None)
        if child is None:
            continue
        _kill(pid)  # what the job left running in its group
        code = TIMED_OUT if child.timed_out else os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - child.started
        unit = 1 if sys.platform == "darwin" else 1024
        if child.number:
            connection.send(wire.pack([child.number, code, seconds, usage.ru_maxrss * unit]))


def _wait_for_all() -> None:
    """Wait until no child is left that could write into a folder that goes with this process."""
    deadline = time.perf_counter() + ENDING_S
    with contextlib.suppress(ChildProcessError):
        while time.perf_counter() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _harness_files(folder: Path) -> dict[str, int]:
    """The files of this repository, and below a folder, that are imported here: when they were changed."""
    files = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or "site-packages" in file:
            continue
        if Path(file).is_relative_to(_ROOT) or Path(file).is_relative_to(folder):
            files[file] = changed_ns(file)
    return files


def changed_ns(file: str) -> int:
    """When a file was changed; 0 if it is not there."""
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0
