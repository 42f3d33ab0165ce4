"""Starts workers for isolated stubs: forked from a zygote where there are some, else a new Python.

A zygote is what the fork server's template is before a run of pytest begins: it has the libraries imported
(torch takes three seconds) and has seen no check. It does nothing but fork workers, so a worker starts in
milliseconds and knows as little as a new process. Each process that runs checks asks for a zygote of its own.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from grading.runner import processors, wire
from grading.runner.learner_side import Connection
from grading.runner.learner_side import run as run_worker

_ROOT = Path(__file__).resolve().parents[2]


class Process(Protocol):
    """What a worker's process is to those who started it.

    cause: why it was ended from outside, of `grading.runner.results.CAUSES`; "" if it ended by itself.
    """

    pid: int
    cause: str

    @property
    def returncode(self) -> Any:
        """As `wait` gives it; None before."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or minus the signal that ended it. Raises subprocess.TimeoutExpired."""
        ...

    def kill(self) -> None:
        """End it with all that it has started; does nothing if all that has ended."""
        ...

    def path_of(self, path: str) -> str | Path:
        """Where the worker finds a file that it was given."""
        ...


Start = Callable[[socket.socket, Any, Any, int], Process]


def start(stream: socket.socket, stdout: Any, stderr: Any, limit_bytes: int) -> Process:
    """A worker at the other end of `stream`, in a session of its own, writing into two files."""
    global _zygote
    if _zygotes is None:
        return _Spawned(_spawn(stream, stdout, stderr, limit_bytes))
    if _zygote is None or _zygote.owner != os.getpid():
        _zygote = _Zygote(_zygotes)
    descriptors = [stream.fileno(), stdout.fileno(), stderr.fileno()]
    return _zygote.fork(descriptors, limit_bytes)


def _spawn(
    stream: socket.socket, stdout: Any, stderr: Any, limit_bytes: int
) -> subprocess.Popen[bytes]:
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [
            *(
                sys.executable,
                "-u",
                "-P",
                "-X",
                "faulthandler",
                "-m",
                "grading.runner.learner_side",
            ),
            *("--fd", str(stream.fileno()), "--limit-bytes", str(limit_bytes)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        pass_fds=[stream.fileno()],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,  # Ctrl-C is for the check's side, which ends this one
    )


class _Group:
    """A process that leads a group, in which all lies that it started and that did not leave."""

    pid: int
    cause = ""

    def path_of(self, path: str) -> str:
        return path

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)


class _Spawned(_Group):
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process

    @property
    def returncode(self) -> Any:
        return self._process.returncode

    def wait(self, timeout: float | None = None) -> int:
        return self._process.wait(timeout)


def start_zygotes(without: int | None = None) -> None:
    """From here on the workers of this process, and of its forks, are forks of what it is now.

    without: a descriptor that zygotes do not keep.
    """
    global _zygotes
    _zygotes, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        code = 70
        try:
            _zygotes.close()
            if without is not None:
                os.close(without)
            code = _serve_zygotes(theirs)
        finally:
            os._exit(code)
    theirs.close()


class _Zygote:
    """One process's end of its zygote. zygotes: where it is asked for."""

    def __init__(self, zygotes: socket.socket) -> None:
        self.owner = os.getpid()
        self.stream, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(zygotes, [b"z"], [theirs.fileno()])
        self.connection = Connection(self.stream, wire.MAX_FRAME_BYTES)
        self.ended: dict[int, int] = {}

    def fork(self, descriptors: Sequence[int], limit_bytes: int) -> _Forked:
        socket.send_fds(self.stream, [b"w"], list(descriptors))
        self.connection.deadline = None
        self.connection.send(
            wire.pack([dict(os.environ), os.getcwd(), limit_bytes, processors.mine()])
        )
        while True:
            kind, *rest = self._receive(None)
            if kind == "started":
                return _Forked(self, rest[0])

    def _receive(self, deadline: float | None) -> list:
        self.stream.settimeout(None)
        self.connection.deadline = deadline
        message = wire.unpack(self.connection.receive())
        if message[0] == "ended":
            self.ended[message[1]] = message[2]
        return message


class _Forked(_Group):
    def __init__(self, zygote: _Zygote, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._zygote = zygote

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            self.returncode = self._zygote.ended.pop(self.pid, None)
            if self.returncode is not None:
                break
            try:
                self._zygote._receive(deadline)
            except TimeoutError:
                raise subprocess.TimeoutExpired("worker", timeout or 0) from None
        return self.returncode


_zygotes: socket.socket | None = None
_zygote: _Zygote | None = None


# --- the zygotes' processes ------------------------------------------------------------------------


def _serve_zygotes(stream: socket.socket) -> int:
    """Fork a zygote for each process that asks for one, until none is left that could; its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a zygote
    while True:
        head, descriptors, _, _ = socket.recv_fds(stream, 1, 1)
        if not head:
            return 0
        if os.fork() == 0:
            stream.close()
            return _serve(socket.socket(fileno=descriptors[0]))
        os.close(descriptors[0])


def _serve(stream: socket.socket) -> int:
    """Fork workers, and tell how each ended, until the other side closes."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    connection = Connection(stream, wire.MAX_FRAME_BYTES)
    workers: set[int] = set()
    try:
        while True:
            readable, _, _ = select.select([stream, wake_read], [], [], None)
            if wake_read in readable:
                os.read(wake_read, 4096)
            for pid in list(workers):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    workers.discard(pid)
                    connection.send(wire.pack(["ended", pid, os.waitstatus_to_exitcode(status)]))
            if stream in readable:
                head, descriptors, _, _ = socket.recv_fds(stream, 1, 3)
                if not head:
                    return 0
                environment, folder, limit_bytes, where = wire.unpack(connection.receive())
                pid = os.fork()
                if pid == 0:
                    processors.stay_on(where)
                    stream.close()
                    os.close(wake_read)
                    os.close(wake_write)
                    _become_worker(descriptors, environment, folder, limit_bytes)
                for descriptor in descriptors:
                    os.close(descriptor)
                workers.add(pid)
                connection.send(wire.pack(["started", pid]))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return 0
    finally:
        for pid in workers:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)


def _become_worker(
    descriptors: list[int], environment: dict[str, str], folder: str, limit_bytes: int
) -> None:
    import faulthandler

    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for place, descriptor in enumerate((nothing, descriptors[1], descriptors[2])):
            os.dup2(descriptor, place)
            os.close(descriptor)
        for name, place in (("stdout", 1), ("stderr", 2)):
            unbuffered = os.fdopen(os.dup(place), "w", encoding="utf-8", errors="replace")
            unbuffered.reconfigure(line_buffering=True, write_through=True)
            setattr(sys, name, unbuffered)
            setattr(sys, f"__{name}__", unbuffered)
        faulthandler.enable(2)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        run_worker(socket.socket(fileno=descriptors[0]), limit_bytes)
    finally:
        os._exit(70)
