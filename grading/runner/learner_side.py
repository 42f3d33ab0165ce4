"""The learner's side: loads the file, calls its functions, reports what happened.

`LearnerSide` is the same code in both kinds of stub. In-process it is called directly; isolated,
`python -m grading.runner.learner_side` runs it in a process of its own at the end of a socket. It only ever
sends calls of callbacks, values and reports of exceptions: there is no message that says
"passed", and what it reports is a claim to the side that decides.

Messages, each a list in msgpack (the wire form of values: see `grading.runner.wire`):

    check -> stub   ["call", name or number, what, args, kwargs]   what: the call in words
                    ["probe", path, function, what, args, kwargs]
                    ["answer", value] | ["failed", token, type names, args, message]
    stub -> check   ["loaded", defined functions, callables, {other name: type}]
                    ["not_loaded", report] | ["return", value] | ["raised", report]
                    ["callback", number, args, kwargs]
"""

from __future__ import annotations

# Long because a worker in the sandbox loads it as one file.
import _signal  # pyrefly: ignore[missing-import] -- as in grading.runner.hang_guard
import argparse
import builtins
import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import linecache
import os
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grading.runner import wire
from grading.runner.hang_guard import HangError, hang_guard

_MACHINERY = str(Path(__file__).resolve().parents[1])
_TEXT_LIMIT = 4000
FRAMEWORKS = frozenset({"torch", "triton", "jax"})  # each takes seconds to import
_FRAMES_SHOWN = 3
# Of the collector: a check makes many objects that stay, and few cycles.
GC_THRESHOLDS = (100_000, 20, 20)


class LearnerSide:
    """The learner's module, its callables, and the way to the check's callables.

    exchange: sends a callback message and returns the answer to it.
    on_end: told why, when the hang guard is about to end the process.
    """

    def __init__(
        self,
        *,
        source: str,
        module_name: str,
        timeout_s: float,
        limit_bytes: int,
        exchange: Callable[[bytes], bytes],
        on_end: Callable[[str], None] | None = None,
    ) -> None:
        self.source = source
        self.module_name = module_name
        self.timeout_s = timeout_s
        self.limit_bytes = limit_bytes
        self.exchange = exchange
        self.on_end = on_end
        self.callables = wire.Callables("stub", self._call_back)
        self.module: types.ModuleType | None = None
        self.traceback: types.TracebackType | None = None
        self._probes: dict[str, types.ModuleType] = {}
        self._running = 0
        self._lock = threading.RLock()

    # --- loading ---------------------------------------------------------------------------------

    def load(self) -> bytes:
        """Run the file; the reply is `loaded` or `not_loaded`."""
        name = f"importing {Path(self.source).name}"
        spec = importlib.machinery.ModuleSpec(self.module_name, None, origin=self.source)
        spec.has_location = True
        module = types.ModuleType(self.module_name)
        module.__spec__ = spec
        module.__file__ = self.source
        sys.modules[self.module_name] = module  # dataclasses and pickle look it up there
        try:
            # Compiled here, past the cache of bytecode: that cache looks at the second of
            # the last change, and a file may be saved twice within one.
            with self._guards(name):
                code = compile(
                    Path(self.source).read_bytes(), self.source, "exec", dont_inherit=True
                )
            _import_frameworks(code)
            with self._guards(name):
                linecache.checkcache(self.source)
                exec(code, module.__dict__)  # noqa: S102 -- the learner's file
        except BaseException as error:
            sys.modules.pop(self.module_name, None)
            if _real_interrupt(error):
                raise
            return wire.pack(["not_loaded", self._report(error)])
        self.module = module
        defined, callables, others = [], [], {}
        for key, value in list(vars(module).items()):
            if type(key) is not str or key.startswith("_"):
                continue
            if callable(value):
                callables.append(key)
                own = getattr(value, "__module__", None) == self.module_name
                if own and not isinstance(value, type):
                    defined.append(key)
            else:
                others[key] = type(value).__name__
        return wire.pack(["loaded", defined, callables, others])

    def unload(self) -> None:
        """Forget the module."""
        sys.modules.pop(self.module_name, None)
        self.module = self.traceback = None

    # --- calls -----------------------------------------------------------------------------------

    def handle(self, body: bytes) -> bytes:
        """Answer a `call` or `probe` message with `return` or `raised`."""
        pid = os.getpid()
        self.traceback = None
        self._running += 1
        try:
            message = wire.unpack(body)
            function, what, args, kwargs = self._understand(message)
            try:
                with self._guards(what):
                    value = function(*args, **kwargs)
                    form = wire.to_wire(value, self.callables)
                    reply = wire.pack(["return", form])
                    wire.check_size(len(reply), self.limit_bytes)
            except BaseException as error:
                if _real_interrupt(error):
                    raise
                reply = wire.pack(["raised", self._report(error)])
        finally:
            self._running -= 1
            if os.getpid() != pid:  # a child that the learner forked must not answer as well
                os._exit(0)
        return reply

    def _understand(self, message: list) -> tuple[Callable[..., Any], str, tuple, dict]:
        kind, *rest = message
        if kind == "probe":
            path, name, *rest = rest
            probe = getattr(self._probe(path), name)
            module = self.module

            def function(*args: Any, **kwargs: Any) -> Any:
                return probe(module, *args, **kwargs)
        else:
            target, *rest = rest
            if type(target) is int:
                function = self.callables.own(target)
            else:
                function = getattr(self.module, target)
        what, args, kwargs = rest
        return (
            function,
            what,
            tuple(wire.from_wire(args, self.callables)),
            wire.from_wire(kwargs, self.callables),
        )

    def _probe(self, path: str) -> types.ModuleType:
        if path not in self._probes:
            name = f"{self.module_name}__probe_{Path(path).stem}"
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None, path
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._probes[path] = module
        return self._probes[path]

    def _call_back(self, number: int, name: str, args: tuple, kwargs: dict) -> Any:
        __tracebackhide__ = True
        if not self._running:
            raise RuntimeError(f"{name} was called after the call that it was given to had ended")
        message = [
            "callback",
            number,
            [
                wire.to_wire(value, self.callables, f"argument {i} of {name}")
                for i, value in enumerate(args, 1)
            ],
            {
                key: wire.to_wire(value, self.callables, f"argument {key} of {name}")
                for key, value in kwargs.items()
            },
        ]
        body = wire.pack(message)
        wire.check_size(len(body), self.limit_bytes)
        with self._lock:  # a learner's threads may call back at the same time
            answer = wire.unpack(self.exchange(body))
        if answer[0] == "answer":
            return wire.from_wire(answer[1], self.callables)
        raise _rebuilt(answer)

    @contextlib.contextmanager
    def _guards(self, what: str) -> Iterator[None]:
        with (
            _interrupts_noted(),
            hang_guard(self.timeout_s, what, sources=[self.source], on_end=self.on_end),
        ):
            yield

    # --- reports ---------------------------------------------------------------------------------

    def _report(self, error: BaseException) -> dict[str, Any]:
        """What happened, in plain values. Nothing in here may fail, whatever the exception is."""
        kind = type(error)
        frames, innermost, first = self._frames(error.__traceback__)
        self.traceback = first
        report: dict[str, Any] = {
            "kind": "exception",
            "type": _plain(kind.__name__),
            "names": [
                f"{base.__module__}.{base.__qualname__}"
                for base in type.mro(kind)
                if base.__module__ in ("builtins", "profiling_lab.errors")
            ],
            "message": _message(error),
            "frames": frames,
            "innermost": innermost,
            "token": None,
            "file": "",
            "line": 0,
            "code": "",
        }
        token = _own_attribute(error, "_grading_token")
        if type(token) is int:
            report["token"] = token
        if kind is HangError:
            report["kind"] = "hang"
        elif kind is wire.FrameTooLarge:
            report["kind"] = "too_large"
        elif kind is wire.ForbiddenValue and not frames:
            report["kind"] = "forbidden"
        elif isinstance(error, SyntaxError) and (
            not frames or _plain(error.filename or "") == self.source
        ):
            line = error.lineno if type(error.lineno) is int else 0
            report |= {
                "kind": "syntax",
                "message": _plain(error.msg or "invalid syntax"),
                "file": _plain(error.filename or "") or self.source,
                "line": line,
                "code": _plain(error.text or "").strip(),
            }
        return report

    def _frames(
        self, traceback: types.TracebackType | None
    ) -> tuple[list[list], list, types.TracebackType | None]:
        """The learner's frames, [in the learner's file, function] of the last, the first one."""
        shown: list[list] = []
        innermost: list = [False, ""]
        first = None
        while traceback is not None:
            code = traceback.tb_frame.f_code
            own = code.co_filename == self.source
            if own and first is None:
                first = traceback
            if first is not None and not code.co_filename.startswith(_MACHINERY):
                line = traceback.tb_lineno or 0
                text = linecache.getline(code.co_filename, line).strip() if own else ""
                innermost = [own, _plain(code.co_qualname)]
                shown.append([_plain(code.co_filename), line, _plain(code.co_name), _plain(text)])
            traceback = traceback.tb_next
        last = shown[-1:]
        shown = [entry for entry in shown if entry[0] == self.source]
        if last and not innermost[0]:
            shown += last
        if len(shown) > 2 * _FRAMES_SHOWN + 1:
            shown = [*shown[:_FRAMES_SHOWN], ["…", 0, "", ""], *shown[-_FRAMES_SHOWN:]]
        return shown, innermost, first


def _import_frameworks(code: types.CodeType) -> None:
    """Import the frameworks that a file imports, ahead of it: that takes none of the learner's time."""
    used = {name.partition(".")[0] for name in code.co_names}
    for name in used & FRAMEWORKS:
        with contextlib.suppress(Exception):  # then the file meets the error itself
            importlib.import_module(name)


def _plain(text: Any) -> str:
    """A real `str` that can be encoded, whatever `text` is."""
    if not isinstance(text, str):
        return ""
    return str.encode(text, "utf-8", "replace")[:_TEXT_LIMIT].decode("utf-8", "replace")


def _message(error: BaseException) -> str:
    try:
        with hang_guard(1.0, "str(exception)"):
            return _plain(str(error))
    except BaseException:  # noqa: BLE001 -- __str__ is the learner's code
        return "(its message cannot be shown: str() of it fails)"


def _own_attribute(error: BaseException, name: str) -> Any:
    # Past a __getattr__ of the learner's own.
    try:
        return BaseException.__getattribute__(error, name)
    except AttributeError:
        return None


def _rebuilt(answer: list) -> BaseException:
    """The exception of a check's callback, as the nearest builtin or library type."""
    _, token, names, args_form, message = answer
    args = wire.from_wire(args_form)
    error: BaseException | None = None
    for name in names:
        module, _, qualified = name.rpartition(".")
        home = builtins if module == "builtins" else sys.modules.get(module)
        kind = getattr(home, qualified, None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            continue
        with contextlib.suppress(Exception):
            error = kind(*args)
            break
    if error is None or type(error) is Exception:
        error = RuntimeError(message)
    error._grading_token = token  # type: ignore[attr-defined]
    return error


# --- Ctrl-C --------------------------------------------------------------------------------------

_pressed = False


def _real_interrupt(error: BaseException) -> bool:
    """Whether someone pressed Ctrl-C, as against the learner's code raising KeyboardInterrupt."""
    return _pressed and isinstance(error, KeyboardInterrupt)


@contextlib.contextmanager
def _interrupts_noted() -> Iterator[None]:
    global _pressed
    _pressed = False
    old = _signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or old is not signal.default_int_handler:
        yield
        return

    def on_interrupt(_number: int, _frame: types.FrameType | None) -> None:
        global _pressed
        _pressed = True
        raise KeyboardInterrupt

    _signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        if _signal.getsignal(signal.SIGINT) is on_interrupt:
            _signal.signal(signal.SIGINT, old)


# --- the process ---------------------------------------------------------------------------------


class Connection:
    """Frames over a stream socket."""

    def __init__(self, stream: socket.socket, limit_bytes: int) -> None:
        self.stream = stream
        self.limit_bytes = limit_bytes
        self.deadline: float | None = None  # of time.monotonic(); past it, TimeoutError

    def send(self, body: bytes) -> None:
        """Send one frame. Raises FrameTooLarge, OSError."""
        wire.check_size(len(body), self.limit_bytes)
        self._limit()
        if len(body) < 2**16:
            self.stream.sendall(wire.frame(body, self.limit_bytes))
        else:  # no copy of a large body
            self.stream.sendall(len(body).to_bytes(4, "big"))
            self.stream.sendall(body)

    def receive(self) -> bytes:
        """One frame's body. Raises EOFError at the end, FrameTooLarge, OSError."""
        return self._exactly(wire.frame_length(self._exactly(4), self.limit_bytes))

    def _limit(self) -> None:
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self.stream.settimeout(left)

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._limit()
            part = self.stream.recv(min(count - len(data), 2**20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)


def serve(connection: Connection) -> None:
    """Answer messages until the other side closes."""
    kind, source, module_name, import_paths, timeout_s = wire.unpack(connection.receive())
    assert kind == "load", kind
    pid = os.getpid()

    def exchange(body: bytes) -> bytes:
        if os.getpid() != pid:
            os._exit(0)
        connection.send(body)
        while True:
            answer = connection.receive()
            if wire.unpack(answer)[0] in ("answer", "failed"):
                return answer
            connection.send(side.handle(answer))  # the callback called the stub again

    add_import_paths(import_paths)
    side = LearnerSide(
        source=source,
        module_name=module_name,
        timeout_s=timeout_s,
        limit_bytes=connection.limit_bytes,
        exchange=exchange,
    )
    connection.send(side.load())
    while True:
        connection.send(side.handle(connection.receive()))


def add_import_paths(paths: list[str]) -> None:
    """Append what is missing to `sys.path`: last, so that nothing of the library is shadowed."""
    sys.path.extend(path for path in paths if path not in sys.path)


def main() -> None:
    parser = argparse.ArgumentParser(description="runs learner code at the end of a socket")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--limit-bytes", type=int, default=wire.MAX_FRAME_BYTES)
    options = parser.parse_args()
    os.set_inheritable(options.fd, False)
    run(socket.socket(fileno=options.fd), options.limit_bytes)


def run(stream: socket.socket, limit_bytes: int) -> None:
    """Be the worker at this end of a socket; never returns."""
    gc.set_threshold(*GC_THRESHOLDS)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        serve(Connection(stream, limit_bytes))
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    # Without the interpreter's own ending, in which the learner's threads might wait for ever.
    os._exit(0)


if __name__ == "__main__":
    importlib.import_module(
        "grading.runner.learner_side"
    ).main()  # the module under its own name, once
