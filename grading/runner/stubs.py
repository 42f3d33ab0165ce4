"""How a check reaches the learner's code: `stub.name(args)`.

`open_stub` gives one of two kinds that a check cannot tell apart: in-process, where `print` and
`pdb` work as usual, and isolated, in a process of its own. Both run the same learner's side
(`grading.runner.learner_side`), pass every value through the wire format both ways, and report in the same
words; they differ only in how a message gets there.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from grading.runner import wire, worker_processes
from grading.runner.disguise import shortened
from grading.runner.hang_guard import (
    DEFAULT_TIMEOUT_S,
    HANG_EXIT_CODE,
    PATIENCE,
    HangError,
    Journal,
    hang_guard,
)
from grading.runner.learner_side import Connection, LearnerSide, add_import_paths
from grading.runner.results import CAUSES
from profiling_lab import needs

__all__ = [
    "Blocked",
    "HangError",
    "Journal",
    "Stub",
    "StubError",
    "StubImportError",
    "abbreviate",
    "hang_guard",
    "open_stub",
]

_OUTPUT_SHOWN_BYTES = 64 * 1024
_NAMES_SHOWN, _NAME_SHOWN = 200, 100
_CALLBACKS_SHARE = 5


class StubError(Exception):
    """The learner's code did not do what was asked; the message is written for the learner.

    headline: the first line. report: what the learner's side said of an exception, or None.
    cause: of `grading.runner.results.CAUSES`, where the code broke a rule instead of being wrong; else "".
    """

    def __init__(
        self, message: str, report: Mapping[str, Any] | None = None, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.report = report
        self.cause = cause

    @property
    def headline(self) -> str:
        """The first line of the message."""
        return str(self).partition("\n")[0]


class StubImportError(StubError):
    """The learner's file cannot be imported. file, line: where, as far as known (line 0: not)."""

    def __init__(self, message: str, file: str, line: int, cause: str = "bad import") -> None:
        super().__init__(message, cause=cause)
        self.file = file
        self.line = line


class Blocked(Exception):
    """The call reached another function that is still to do. task: that task's id."""

    def __init__(self, task: str) -> None:
        super().__init__(f"blocked by {task}, which is still to do")
        self.task = task


def open_stub(
    source: Path,
    *,
    module_name: str,
    isolated: bool,
    import_paths: Iterable[Path | str] = (),
    functions: Iterable[str] = (),
    todo: Iterable[str] = (),
    task_of: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    limit_bytes: int = wire.MAX_FRAME_BYTES,
    start_worker: worker_processes.Start = worker_processes.start,
) -> Stub:
    """A stub for the file `source`; nothing is loaded before the first use.

    import_paths: appended to the learner's `sys.path`.
    functions: the names that the manifest promises. todo: those whose body is not written yet.
    task_of: task id of each function.
    timeout_s: for each call and for the import. limit_bytes: the largest message either way.
    start_worker: starts the process of an isolated stub, by default an unprotected one.
    """
    return Stub(
        Path(os.path.abspath(source)),
        module_name=module_name,
        isolated=isolated,
        import_paths=[str(path) for path in import_paths],
        functions=frozenset(functions),
        todo=frozenset(todo),
        task_of=dict(task_of or {}),
        timeout_s=timeout_s,
        limit_bytes=limit_bytes,
        start_worker=start_worker,
    )


# Import failures by (kind, file, hashes): an endless loop at import is waited for once, not once
# for each check.
_import_failures: dict[tuple, tuple[str, str, int, str]] = {}
_module_numbers = itertools.count()


class Stub:
    """The learner's file. `stub.name` is its function `name`; `raises` expects an exception."""

    def __init__(
        self,
        source: Path,
        *,
        module_name: str,
        isolated: bool,
        import_paths: list[str],
        functions: frozenset[str],
        todo: frozenset[str],
        task_of: dict[str, str],
        timeout_s: float,
        limit_bytes: int,
        start_worker: worker_processes.Start,
    ) -> None:
        clash = sorted(name for name in functions if hasattr(Stub, name))
        if clash:
            raise ValueError(f"a task cannot be called {clash[0]!r}: the stub has that name itself")
        self._source = source
        self._isolated = isolated
        self._todo = todo
        self._task_of = task_of
        self._functions = functions
        self._limit_bytes = limit_bytes
        self._callables = wire.Callables("check", self._call_learners)
        self._key = (isolated, str(source), _hash(source))
        self._raised: list[BaseException] = []
        self._explained: set[str] = set()
        self._expectations: list[_Expectation] = []
        self._defined: list[str] = []
        self._callable_names: frozenset[str] = frozenset()
        self._others: dict[str, str] = {}
        clean = re.sub(r"\W", "_", module_name)
        settings: dict[str, Any] = {
            "source": str(source),
            "module_name": f"{clean}__{next(_module_numbers)}",
            "timeout_s": timeout_s,
        }
        self._transport: _InProcess | _Isolated
        if isolated:
            self._transport = _Isolated(
                settings, import_paths, limit_bytes, self._answer, start_worker
            )
        else:
            self._transport = _InProcess(settings, import_paths, limit_bytes, self._answer)

    def __repr__(self) -> str:
        kind = "isolated" if self._isolated else "in-process"
        return f"<stub {self._source.name}, {kind}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker, or forget the module."""
        self._transport.close()

    def raises(
        self, kind: type[BaseException], match: str | None = None, why: str = ""
    ) -> _Expectation:
        """Expect the call in the block to raise `kind`: a builtin or one of profiling_lab.errors.

        match: a regular expression that its message must contain. why: a clause for the message
        ("an empty capture has no span"). Yields an object with `type_name` and `message`.
        """
        if kind.__module__ not in ("builtins", "profiling_lab.errors"):
            raise TypeError(f"{kind!r} does not cross: use a builtin or profiling_lab.errors")
        if issubclass(kind, NotImplementedError):
            raise TypeError("NotImplementedError means todo; a check cannot ask for it")
        return _Expectation(self, kind, match, why)

    def probe(self, path: Path, function: str, *args: Any, **kwargs: Any) -> Any:
        """Run `function(module, *args)` of the file `path` beside the learner's code.

        What it returns is a claim of that side.
        """
        __tracebackhide__ = True
        self._load()
        return self._request("probe", [str(path), function], function, args, kwargs)

    def __getattr__(self, name: str) -> StubFunction:
        __tracebackhide__ = True
        if name.startswith("_"):
            raise AttributeError(name)
        self._load()
        if name not in self._callable_names:
            raise StubError(self._missing(name))
        return StubFunction(self, name)

    # --- requests --------------------------------------------------------------------------------

    def _load(self) -> None:
        __tracebackhide__ = True
        if self._transport.ready:
            return
        failure = _import_failures.get(self._key)
        if failure is None:
            reply: list | None = None
            try:
                reply = _checked(self._transport.load(), {"loaded": 3, "not_loaded": 1})
                if reply[0] == "loaded":
                    self._note_names(reply)
                    return
                report = _checked_report(reply[1])
                failure = (*self._import_failure(report), _cause(report) or "bad import")
            except _Ended as ended:
                text = f"{ended.sentence} while it was imported"
                failure = (text, str(self._source), 0, ended.cause)
            except wire.WireError as error:
                failure = (f"the import sent {error}", str(self._source), 0, _cause_of_wire(error))
            self._transport.close()
            _import_failures[self._key] = failure
        text, file, line, cause = failure
        text = f"{self._source.name} cannot be imported: {needs.explained(text)}"
        raise StubImportError(text, file, line, cause)

    def _note_names(self, reply: list) -> None:
        _, defined, callables, others = reply
        if not (
            type(defined) is list
            and type(callables) is list
            and type(others) is dict
            and all(type(name) is str for name in (*defined, *callables, *others))
        ):
            raise wire.MalformedFrame("names that are no text")
        # In messages only some are named, each shortened: the other side may say what it likes.
        self._defined = sorted(name[:_NAME_SHOWN] for name in defined)[:_NAMES_SHOWN]
        self._callable_names = frozenset(callables)
        self._others = {
            name: str(kind)[:_NAME_SHOWN]
            for name, kind in itertools.islice(others.items(), _NAMES_SHOWN)
        }

    def _call_learners(self, number: int, name: str, args: tuple, kwargs: dict) -> Any:
        # A function that the learner's code returned or passed to a callback.
        __tracebackhide__ = True
        return self._request("call", [number], name, args, kwargs)

    def _request(self, kind: str, target: list, name: str, args: tuple, kwargs: dict) -> Any:
        __tracebackhide__ = True
        what = _call_text(name, args, kwargs)
        body = wire.pack(
            [
                kind,
                *target,
                what,
                [
                    wire.to_wire(value, self._callables, f"argument {i} of {name}")
                    for i, value in enumerate(args, 1)
                ],
                {
                    key: wire.to_wire(value, self._callables, f"argument {key} of {name}")
                    for key, value in kwargs.items()
                },
            ]
        )
        wire.check_size(len(body), self._limit_bytes)
        try:
            reply = _checked(self._transport.request(body), {"return": 1, "raised": 1})
            if reply[0] == "return":
                value = wire.from_wire(reply[1], self._callables)
                for expectation in self._expectations:
                    expectation.came_back = (what, value)
                return value
            report = _checked_report(reply[1])
        except _Ended as ended:
            raise StubError(f"{ended.sentence} while {what} ran", cause=ended.cause) from None
        except wire.WireError as error:
            self._transport.close()
            raise StubError(
                f"{what} sent an answer that cannot be read: {error}. Does the code write to a "
                "file descriptor that it did not open?",
                cause=_cause_of_wire(error),
            ) from None
        told = self._error(what, report)
        raise told.with_traceback(self._transport.take_traceback())

    def _answer(self, body: bytes) -> bytes:
        """Run a callback of the check for the learner's side."""
        message = _checked(wire.unpack(body), {"callback": 3})
        _, number, args_form, kwargs_form = message
        args = wire.from_wire(args_form, self._callables)
        kwargs = wire.from_wire(kwargs_form, self._callables)
        if type(args) is not list or type(kwargs) is not dict:
            raise wire.MalformedFrame("a callback without arguments")
        function = self._callables.own(number)
        try:
            value = function(*args, **kwargs)
            name = getattr(function, "__name__", "a callback")
            return wire.pack(["answer", wire.to_wire(value, self._callables, f"result of {name}")])
        except (HangError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 -- it goes on to the learner's side
            self._raised.append(error)
            names = [
                f"{base.__module__}.{base.__qualname__}"
                for base in type(error).__mro__
                if base.__module__ in ("builtins", "profiling_lab.errors")
            ]
            try:
                form = wire.to_wire(list(error.args))
            except wire.WireError:
                form = [str(error)]
            return wire.pack(["failed", len(self._raised) - 1, names, form, str(error)])

    # --- explanations ----------------------------------------------------------------------------

    def _error(self, what: str, report: dict[str, Any]) -> BaseException:
        token = report["token"]
        if type(token) is int and 0 <= token < len(self._raised):
            return self._raised[token]  # the check's own exception, come back through the learner
        own, function = report["innermost"]
        if own and "builtins.NotImplementedError" in report["names"] and function in self._todo:
            return Blocked(self._task_of.get(function, function))
        message, frames = report["message"], report["frames"]
        if report["kind"] == "forbidden":
            return StubError(f"{what} cannot be graded: {message}", cause=_cause(report))
        if report["kind"] == "too_large":
            text = f"{what} cannot be graded: its result has {message}"
            return StubError(text, cause=_cause(report))
        if report["kind"] == "hang":
            text = message if message else f"{what} did not come back"
            return StubError(text, report, _cause(report))
        if "builtins.SystemExit" in report["names"]:
            text = f"{what} ended the program (SystemExit: {message}) instead of returning"
        elif "builtins.KeyboardInterrupt" in report["names"]:
            text = f"{what} raised KeyboardInterrupt, as if someone had pressed Ctrl-C"
        else:
            text = f"{what} raised {report['type']}" + (f": {message}" if message else "")
        if "builtins.TypeError" in report["names"] and not frames:
            text += (
                "\n  The call never reached the function's body: keep the parameters that the "
                "file came with."
            )
        elif "builtins.NotImplementedError" in report["names"]:
            text += (
                "\n  It counts as still to do only while the body is nothing but "
                "raise NotImplementedError."
            )
        return StubError(text + _frames_text(frames), report, _cause(report))

    def _import_failure(self, report: dict[str, Any]) -> tuple[str, str, int]:
        frames, message = report["frames"], report["message"]
        own = [frame for frame in frames if frame[1] and frame[3]]
        file, line = (own[-1][0], own[-1][1]) if own else (str(self._source), 0)
        at = f"line {line}" if line else "it"
        names = report["names"]
        if report["kind"] == "syntax":
            file, line = report["file"], report["line"]
            text = f"syntax error in line {line}: {message}"
            frames = [[file, line, "", report["code"]]]
        elif report["kind"] == "hang":
            text = message
        elif "builtins.SystemExit" in names:
            text = (
                f"{at} ends the program (SystemExit: {message}); outside its functions the file "
                "may only import and define"
            )
        elif "builtins.KeyboardInterrupt" in names:
            text = f"{at} raises KeyboardInterrupt, as if someone had pressed Ctrl-C"
        elif "builtins.OSError" in names and not frames:
            text = f"the file cannot be read ({message})"
        else:
            text = f"{at} raises {report['type']}" + (f": {message}" if message else "")
        return text + _frames_text(frames), file, line

    def _missing(self, name: str) -> str:
        file = self._source.name
        if name in self._others:
            kind = self._others[name]
            return f"{file} defines {name}, but as {_a(kind)}, not as a function"
        text = f"{file} defines no function {name}"
        if name in self._explained:
            return f"{text} (see the first failure of this kind)"
        self._explained.add(name)
        free = [known for known in self._defined if known not in self._functions] or self._defined
        close = difflib.get_close_matches(name, free, n=3, cutoff=0.6)
        if close:
            text += f"; did you misname it? There is {' and '.join(close)}"
        listed = ", ".join(self._defined) or "no function at all"
        return f"{text}. The file defines: {listed}. Keep the names that the file came with."


class StubFunction:
    """One function of the learner's file; calling it crosses to the learner's side."""

    __slots__ = ("__name__", "_stub")

    def __init__(self, stub: Stub, name: str) -> None:
        self._stub = stub
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        self._stub._load()  # again, if the process ended in an earlier call
        return self._stub._request("call", [self.__name__], self.__name__, args, kwargs)

    def __repr__(self) -> str:
        return f"<{self._stub._source.name}: {self.__name__}>"


class _Expectation:
    """The block of `stub.raises`."""

    def __init__(self, stub: Stub, kind: type[BaseException], match: str | None, why: str) -> None:
        self.type_name = ""
        self.message = ""
        self.came_back: tuple[str, Any] | None = None
        self._stub = stub
        self._kind = kind
        self._match = match
        self._wanted = kind.__name__ + (f", because {why}" if why else "")

    def __enter__(self) -> Self:
        self._stub._expectations.append(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> bool:
        __tracebackhide__ = True
        self._stub._expectations.remove(self)
        if error is None:
            if self.came_back is None:
                raise RuntimeError("the block of stub.raises calls no function of the stub")
            what, value = self.came_back
            raise StubError(f"{what} returned {abbreviate(value)}; it must raise {self._wanted}")
        if isinstance(error, StubError) and error.report is not None:
            report = error.report
            if report["kind"] not in ("exception", "syntax"):
                return False
            self.type_name, self.message = report["type"], report["message"]
            right = f"{self._kind.__module__}.{self._kind.__qualname__}" in report["names"]
            text = str(error)
        elif any(error is raised for raised in self._stub._raised):
            self.type_name, self.message = type(error).__name__, str(error)
            right = isinstance(error, self._kind)
            text = f"the call passed on {self.type_name}: {self.message}"
        else:
            return False
        if not right:
            raise StubError(f"{text}\n  It must raise {self._wanted}.") from None
        if self._match is not None and not re.search(self._match, self.message):
            headline = text.partition("\n")[0]
            raise StubError(
                f"{headline}\n  {self.type_name} is right, but its message must hold these words: "
                f"{self._match}"
            ) from None
        return True


# --- transports ----------------------------------------------------------------------------------


class _Ended(Exception):
    """The worker's process is no more. sentence: how it ended. cause: of `grading.runner.results.CAUSES`."""

    def __init__(self, sentence: str, cause: str) -> None:
        self.sentence = sentence
        self.cause = cause


class _InProcess:
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


class _Isolated:
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
            raise _Ended(
                f"the process did not come back after {PATIENCE * self._settings['timeout_s']:.3g} s and "
                "could not be interrupted (a loop inside C code?), so it was ended,",
                "time-out",
            ) from None
        except (EOFError, OSError):
            sentence, cause = self._end(kill=False)
            raise _Ended(f"the process {sentence}", cause) from None
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


def _cause(report: Mapping[str, Any]) -> str:
    """Of `grading.runner.results.CAUSES`, if what a report tells is no wrong answer but a broken rule."""
    kinds = {"hang": "time-out", "too_large": "oversized output", "forbidden": "forbidden value"}
    if report["kind"] in kinds:
        return kinds[report["kind"]]
    names = {"builtins.MemoryError": "memory", "builtins.SystemExit": "exit"}
    return next((cause for name, cause in names.items() if name in report["names"]), "")


def _cause_of_wire(error: wire.WireError) -> str:
    return "oversized output" if isinstance(error, wire.FrameTooLarge) else "protocol"


# --- messages from the other side ----------------------------------------------------------------


def _checked(message: Any, kinds: dict[str, int]) -> list:
    if (
        type(message) is not list
        or not message
        or type(message[0]) is not str
        or kinds.get(message[0]) != len(message) - 1
    ):
        raise wire.MalformedFrame("a message of no known kind")
    return message


_REPORT_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "type": (str,),
    "names": (list,),
    "message": (str,),
    "frames": (list,),
    "innermost": (list,),
    "token": (int, type(None)),
    "file": (str,),
    "line": (int,),
    "code": (str,),
}


def _checked_report(report: Any) -> dict[str, Any]:
    good = (
        type(report) is dict
        and report.keys() == _REPORT_TYPES.keys()
        and all(type(report[key]) in kinds for key, kinds in _REPORT_TYPES.items())
        and all(type(name) is str for name in report["names"])
        and [type(part) for part in report["innermost"]] == [bool, str]
        and all(
            type(frame) is list and [type(part) for part in frame] == [str, int, str, str]
            for frame in report["frames"]
        )
    )
    if not good:
        raise wire.MalformedFrame("a report of no known shape")
    return report


# --- words ---------------------------------------------------------------------------------------


def abbreviate(value: Any, limit: int = 100) -> str:
    """A value that crossed, in at most about `limit` characters; of a path the last two parts."""
    kind = type(value)
    if isinstance(value, Path):
        names = value.parts
        return "…/" + "/".join(names[-2:]) if len(names) > 3 else value.as_posix()
    if kind.__module__ == "numpy" and hasattr(value, "shape") and value.shape != ():
        if value.size <= 6:
            return f"array({value.tolist()}, {value.dtype})"
        shape = "x".join(map(str, value.shape))
        return f"array({shape} {value.dtype})"
    if kind in (list, tuple):
        left, right = "[]" if kind is list else "()"
        parts = _some((abbreviate(item, limit // 2) for item in value), len(value), limit)
        if kind is tuple and len(value) == 1:
            parts += ","
        return left + parts + right
    if kind is dict:
        items = (f"{abbreviate(k, 40)}: {abbreviate(v, limit // 2)}" for k, v in value.items())
        return "{" + _some(items, len(value), limit) + "}"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return shortened(repr(value), limit)


def _some(items: Iterable[str], count: int, limit: int) -> str:
    shown: list[str] = []
    length = 0
    for item in items:
        if shown and length + len(item) > limit:
            return ", ".join(shown) + f", … {count} in all"
        shown.append(item)
        length += len(item) + 2
    return ", ".join(shown)


def _call_text(name: str, args: tuple, kwargs: dict) -> str:
    given = [abbreviate(value, 60) for value in args]
    given += [f"{key}={abbreviate(value, 60)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(given)})"


def _frames_text(frames: list[list]) -> str:
    lines = []
    for file, line, function, code in frames:
        if not line and file == "…":
            lines.append("  …")
            continue
        where = f", in {function}" if function and function != "<module>" else ""
        lines.append(f"  {_shown_path(file)}, line {line}{where}")
        if code:
            lines.append(f"    {code}")
    return "".join(f"\n{line}" for line in lines)


def _shown_path(file: str) -> str:
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith("..") else relative


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _hash(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        return type(error).__name__
