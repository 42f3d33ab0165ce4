"""How a message gets to the learner's side: in this process, or in one of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from typing import Any

from grading.runner import wire, worker_processes
from grading.runner.hang_guard import HANG_EXIT_CODE, PATIENCE
from grading.runner.learner_side import Connection, LearnerSide, add_import_paths
from grading.runner.results import CAUSES

_OUTPUT_SHOWN_BYTES = 64 * 1024
_CALLBACKS_SHARE = 5


class Ended(Exception):
    """The worker's process is no more. sentence: how it ended. cause: of `grading.runner.results.CAUSES`."""

    def __init__(self, sentence: str, cause: str) -> None:
        self.sentence = sentence
        self.cause = cause


class InProcess:
    """The learner's side in this process."""

    def __init__(
        self,
        settings: dict[str, Any],
        import_paths: list[str],
        limit_bytes: int,
        answer: Any,
    ) -> None:
        self._settings = settings
        self._import_paths = import_paths
        self._limit_bytes = limit_bytes
        self._exchange = answer
        self._side: LearnerSide | None = None

    @property
    def ready(self) -> bool:
        return self._side is not None

    def load(self) -> Any:
        add_import_paths(self._import_paths)
        side = LearnerSide(**self._settings, limit_bytes=self._limit_bytes, exchange=self._exchange)
        reply = wire.unpack(side.load())
        if reply[0] == "loaded":
            self._side = side
        return reply

    def request(self, body: bytes) -> Any:
        __tracebackhide__ = True
        assert self._side is not None
        return wire.unpack(self._side.handle(body))

    def take_traceback(self) -> types.TracebackType | None:
        """The learner's part of the last traceback: pytest shows it, and pdb goes there."""
        if self._side is None:
            return None
        traceback, self._side.traceback = self._side.traceback, None
        return traceback

    def close(self) -> None:
        if self._side is not None:
            self._side.unload()
            self._side = None


class Isolated:
    """The learner's side in a process of its own, started anew after it has ended."""

    def __init__(
        self,
        settings: dict[str, Any],
        import_paths: list[str],
        limit_bytes: int,
        answer: Any,
        start: worker_processes.Start,
    ) -> None:
        self._settings = settings
        self._import_paths = import_paths
        self._limit_bytes = limit_bytes
        self._callback = answer
        self._start = start
        self._process: worker_processes.Process | None = None
        self._connection: Connection | None = None
        self._outputs: list[tuple[Any, str, int]] = []
        # The worker interrupts Python code by itself; what is left is code that cannot be.
        timeout_s = settings["timeout_s"]
        self._deadline_s = PATIENCE * timeout_s + 6 * min(timeout_s, 1.0) + 2.0

    @property
    def ready(self) -> bool:
        return self._connection is not None

    def load(self) -> Any:
        if not hasattr(socket, "AF_UNIX") or os.name != "posix":
            raise RuntimeError("isolated stubs need a POSIX system")
        ours, theirs = socket.socketpair()
        files = (tempfile.TemporaryFile(), tempfile.TemporaryFile())  # noqa: SIM115
        with theirs:
            self._process = self._start(theirs, *files, self._limit_bytes)
        self._close_outputs()
        self._outputs = [(files[0], "stdout", 0), (files[1], "stderr", 0)]
        self._connection = Connection(ours, self._limit_bytes)
        settings = self._settings
        return self._exchange(
            wire.pack(
                [
                    "load",
                    str(self._process.path_of(settings["source"])),
                    settings["module_name"],
                    self._import_paths,
                    settings["timeout_s"],
                ]
            ),
            callbacks=False,
        )

    def request(self, body: bytes) -> Any:
        return self._exchange(body, callbacks=True)

    def take_traceback(self) -> None:
        """The traceback stays in the other process."""

    def _exchange(self, body: bytes, *, callbacks: bool) -> Any:
        connection = self._connection
        assert connection is not None
        deadline = time.monotonic() + self._deadline_s
        # The time of the check's own functions is not the learner's, up to a limit: it is the learner's
        # code that says how often they are called, and with what.
        latest = deadline + _CALLBACKS_SHARE * self._deadline_s
        try:
            connection.deadline = deadline
            connection.send(body)
            while True:
                received = connection.receive()
                reply = wire.unpack(received)
                if not (callbacks and type(reply) is list and reply[:1] == ["callback"]):
                    return reply
                started = time.monotonic()
                answer = self._callback(received)
                deadline = min(deadline + time.monotonic() - started, latest)
                connection.deadline = deadline  # a nested call has set its own
                connection.send(answer)
        except TimeoutError:
            self._end(kill=True)
            raise Ended(
                f"the process did not come back after {PATIENCE * self._settings['timeout_s']:.3g} s and "
                "could not be interrupted (a loop inside C code?), so it was ended,",
                "time-out",
            ) from None
        except (EOFError, OSError):
            sentence, cause = self._end(kill=False)
            raise Ended(f"the process {sentence}", cause) from None
        except BaseException:
            self._end(kill=True)  # a half-read message, or Ctrl-C: nothing more to expect from it
            raise
        finally:
            self._replay()

    def _end(self, *, kill: bool) -> tuple[str, str]:
        """Make sure that the process is gone; says how it ended, and the cause."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.stream.close()
        if process is None:
            return "had ended", "exit"
        closed = False
        try:
            if kill:
                raise subprocess.TimeoutExpired("", 0)
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            closed = True
            process.kill()
            process.wait()
        process.kill()  # what the learner's code may have started
        if process.cause:
            return f"was ended because it {CAUSES[process.cause]}", process.cause
        if closed:
            return "closed its connection", "exit"
        return _how_it_ended(process.returncode)

    def _replay(self) -> None:
        """Print what the learner's code printed, so that pytest shows it as it does in-process."""
        for place, (file, name, seen) in enumerate(self._outputs):
            # The worker may write, and cut, what it likes: no more is read than is shown.
            size = os.fstat(file.fileno()).st_size
            if size > seen:
                start = max(seen, size - _OUTPUT_SHOWN_BYTES)
                # pread, because the worker's descriptor shares its position with this one.
                data = os.pread(file.fileno(), _OUTPUT_SHOWN_BYTES, start)
                text = data.decode("utf-8", "replace")
                if start > seen:
                    text = f"… {start - seen} bytes before this …\n{text}"
                getattr(sys, name).write(text)
            self._outputs[place] = (file, name, size)

    def close(self) -> None:
        if self._connection is not None:
            self._end(kill=True)
        self._close_outputs()

    def _close_outputs(self) -> None:
        for file, _, _ in self._outputs:
            file.close()
        self._outputs = []


def _how_it_ended(code: int) -> tuple[str, str]:
    """An exit code in words, and its cause."""
    if code == HANG_EXIT_CODE:
        text = "swallowed every interruption of a call that did not come back, and was ended,"
        return text, "time-out"
    if code >= 0:
        return f"ended with exit code {code} (os._exit, or a library that ends the program)", "exit"
    meaning = {
        "SIGSEGV": "segmentation fault",
        "SIGBUS": "bus error",
        "SIGABRT": "abort, often a failed assertion in C code",
        "SIGFPE": "arithmetic error",
        "SIGILL": "illegal instruction",
        "SIGKILL": "killed, often for want of memory",
    }
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"ended by signal {-code}", "crash"
    words = f", {meaning[name]}" if name in meaning else ""
    return f"ended by signal {-code} ({name}{words})", "crash"
