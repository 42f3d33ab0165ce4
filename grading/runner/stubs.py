"""How a check reaches the learner's code: `stub.name(args)`.

`open_stub` gives one of two kinds that a check cannot tell apart: in-process, where `print` and
`pdb` work as usual, and isolated, in a process of its own. Both run the same learner's side
(`grading.runner.learner_side`), pass every value through the wire format both ways, and report in the same
words (`grading.runner.failures`); they differ only in how a message gets there (`grading.runner.transports`).
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import os
import re
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from grading.runner import wire, worker_processes
from grading.runner.abbreviated import abbreviate, call_text, with_article
from grading.runner.failures import (
    Blocked,
    StubError,
    StubImportError,
    cause_of,
    cause_of_wire,
    checked,
    checked_report,
    failure_of_call,
    failure_of_import,
    lacking_words,
)
from grading.runner.hang_guard import DEFAULT_TIMEOUT_S, HangError
from grading.runner.transports import Ended, InProcess, Isolated
from profiling_lab import needs

_NAMES_SHOWN, _NAME_SHOWN = 200, 100


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
        self._transport: InProcess | Isolated
        if isolated:
            self._transport = Isolated(
                settings, import_paths, limit_bytes, self._answer, start_worker
            )
        else:
            self._transport = InProcess(settings, import_paths, limit_bytes, self._answer)

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
        self, kind: type[BaseException], match: str | tuple[str, ...] = (), why: str = ""
    ) -> _Expectation:
        """Expect the call in the block to raise `kind`: a builtin or one of profiling_lab.errors.

        match: a regular expression that its message must contain, or words in any order. why: a clause for the
        message ("an empty capture has no span"). Yields an object with `type_name` and `message`.
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
                reply = checked(self._transport.load(), {"loaded": 3, "not_loaded": 1})
                if reply[0] == "loaded":
                    self._note_names(reply)
                    return
                report = checked_report(reply[1])
                failure = (
                    *failure_of_import(report, self._source),
                    cause_of(report) or "bad import",
                )
            except Ended as ended:
                text = f"{ended.sentence} while it was imported"
                failure = (text, str(self._source), 0, ended.cause)
            except wire.WireError as error:
                failure = (f"the import sent {error}", str(self._source), 0, cause_of_wire(error))
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
        what = call_text(name, args, kwargs)
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
            reply = checked(self._transport.request(body), {"return": 1, "raised": 1})
            if reply[0] == "return":
                value = wire.from_wire(reply[1], self._callables)
                for expectation in self._expectations:
                    expectation.came_back = (what, value)
                return value
            report = checked_report(reply[1])
        except Ended as ended:
            raise StubError(f"{ended.sentence} while {what} ran", cause=ended.cause) from None
        except wire.WireError as error:
            self._transport.close()
            raise StubError(
                f"{what} sent an answer that cannot be read: {error}. Does the code write to a "
                "file descriptor that it did not open?",
                cause=cause_of_wire(error),
            ) from None
        told = self._error(what, report)
        raise told.with_traceback(self._transport.take_traceback())

    def _answer(self, body: bytes) -> bytes:
        """Run a callback of the check for the learner's side."""
        message = checked(wire.unpack(body), {"callback": 3})
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
        return failure_of_call(what, report)

    def _missing(self, name: str) -> str:
        file = self._source.name
        if name in self._others:
            kind = self._others[name]
            return f"{file} defines {name}, but as {with_article(kind)}, not as a function"
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

    def __init__(
        self, stub: Stub, kind: type[BaseException], match: str | tuple[str, ...], why: str
    ) -> None:
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
        if lacking := lacking_words(self._match, self.message):
            told = f"{self.type_name} is right, but its message must hold these words: "
            raise StubError(f"{text.splitlines()[0]}\n  {told}{', '.join(lacking)}") from None
        return True


def _hash(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        return type(error).__name__
