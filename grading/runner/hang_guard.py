"""A guard around learner code that runs in this process: endless loops.

`hang_guard` interrupts a loop of Python code that does not come back. It is generous and never a
grade: it counts processor time, so that a busy machine takes none of it, and code that sleeps has
PATIENCE times as long. A loop inside a C function cannot be interrupted this way, only by ending the
process.
"""

from __future__ import annotations

# `signal` looks each handler up among the names of handlers, which takes nine tenths of a guard's time.
import _signal  # pyrefly: ignore[missing-import]
import contextlib
import ctypes
import linecache
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType

DEFAULT_TIMEOUT_S = 60.0
PATIENCE = 4  # so many times the limit may pass by the clock, for code that waits, or waits for a processor
HANG_EXIT_CODE = 75
_REPEAT_S = 1.0
_GIVE_UP_AFTER = 5


class HangError(BaseException):
    """Learner code that did not come back; no Exception, so that `except Exception` lets it pass.

    Attributes: what (the call), spent (how long, in words), where ((file, line, function) or None).
    """

    what = "the code"
    spent = ""
    where: tuple[str, int, str] | None = None

    def __str__(self) -> str:
        text = f"{self.what} had not come back after {self.spent}"
        if self.where:
            file, line, function = self.where
            code = linecache.getline(file, line).strip()
            text += f"; it was at {Path(file).name}, line {line}, in {function}"
            text += f": {code}" if code else ""
        return text


@contextlib.contextmanager
def hang_guard(
    seconds: float,
    what: str,
    *,
    sources: Collection[str] = (),
    on_end: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Raise HangError in the block once it has computed for `seconds`, or has taken PATIENCE times as long.

    What it computes is the processor time of all threads of this process; no sooner than after `seconds` by
    the clock, so that many threads at once take no time from each other.

    what: the call, for the message. sources: files of the learner's code; the message gives the
    line in one of them where there is one. In the main thread of a POSIX system the interruption
    comes by SIGALRM, elsewhere by an exception that a timer thread sets. It is repeated if the
    code swallows it; after the fifth time the process is ended with HANG_EXIT_CODE, the reason
    goes to stderr and, before that, to `on_end`. A block that swallowed it and then came back
    raises HangError all the same. Time in a debugger does not count.
    """
    state = _State(seconds, what, sources, on_end)
    in_main = threading.current_thread() is threading.main_thread()
    alarm = _by_alarm if in_main and hasattr(signal, "setitimer") else _by_thread
    raised: BaseException | None = None
    try:
        with alarm(state):
            yield
    except BaseException as error:
        if not state.fired:
            raise
        raised = error
    if state.fired:
        hang = HangError()
        hang.what, hang.spent, hang.where = what, state.spent, state.where
        if raised is not None:
            hang.with_traceback(raised.__traceback__)
        raise hang from None


class _State:
    def __init__(
        self,
        seconds: float,
        what: str,
        sources: Collection[str],
        on_end: Callable[[str], None] | None,
    ) -> None:
        self.seconds = seconds
        self.what = what
        self.sources = sources
        self.on_end = on_end
        self.fired = 0
        self.debugged = False
        self.over = False
        self.where: tuple[str, int, str] | None = None
        self.spent = ""
        self._began = time.monotonic(), time.process_time()

    def is_due(self) -> bool:
        """Whether the block has had its time; looks at the clocks until it has."""
        if not self.spent:
            passed_s, computed_s = (
                time.monotonic() - self._began[0],
                time.process_time() - self._began[1],
            )
            # An alarm after `seconds` finds a little less: the machine did something else as well.
            if computed_s >= 0.9 * self.seconds:
                self.spent = f"{self.seconds:.3g} s of processor time"
            elif passed_s >= PATIENCE * self.seconds:
                self.spent = (
                    f"{PATIENCE * self.seconds:.3g} s, {computed_s:.2g} s of it processor time"
                )
        return bool(self.spent)

    def may_fire(self, frame: FrameType | None) -> bool:
        """Count one interruption at `frame`; False if a debugger runs. May end the process."""
        self.debugged = self.debugged or _in_debugger(frame)
        if self.debugged:
            return False
        if self.fired == 0:
            self.where = _line(frame, self.sources)
        self.fired += 1
        if self.fired > _GIVE_UP_AFTER:
            self.end_process()
        return True

    def end_process(self) -> None:
        reason = (
            f"{self.what} had not come back after {self.spent} and swallowed "
            f"{_GIVE_UP_AFTER} interruptions"
        )
        if self.where:
            reason += f" (at {Path(self.where[0]).name}, line {self.where[1]})"
        if self.on_end is not None:
            with contextlib.suppress(Exception):
                self.on_end(reason)
        with contextlib.suppress(OSError):
            os.write(2, f"\n{reason}; the process ends here.\n".encode())
        os._exit(HANG_EXIT_CODE)


@contextlib.contextmanager
def _by_alarm(state: _State) -> Iterator[None]:
    def on_alarm(_number: int, frame: FrameType | None) -> None:
        if not state.over and state.is_due() and state.may_fire(frame):
            raise HangError

    started = time.monotonic()
    old_handler = _signal.signal(signal.SIGALRM, on_alarm)
    repeat = min(state.seconds, _REPEAT_S)
    outer_left, outer_repeat = signal.setitimer(signal.ITIMER_REAL, state.seconds, repeat)
    try:
        try:
            yield
        finally:
            state.over = True  # first of all, so that no alarm interrupts the restoring below
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _signal.signal(signal.SIGALRM, old_handler)
        if outer_left:  # a guard around this one goes on with the time that it has left
            left = max(outer_left - (time.monotonic() - started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, left, outer_repeat)


@contextlib.contextmanager
def _by_thread(state: _State) -> Iterator[None]:
    target = threading.get_ident()
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
    lock = threading.Lock()
    over = threading.Event()

    def watch() -> None:
        wait = state.seconds
        while not over.wait(wait):
            wait = min(state.seconds, _REPEAT_S)
            with lock:
                frame = sys._current_frames().get(target)
                if not over.is_set() and state.is_due() and state.may_fire(frame):
                    set_exception(ctypes.c_ulong(target), ctypes.py_object(HangError))

    threading.Thread(target=watch, name="hang-guard", daemon=True).start()
    try:
        yield
    finally:
        with lock:
            over.set()
            # Takes back an exception that is set but not raised yet.
            set_exception(ctypes.c_ulong(target), None)


def _in_debugger(frame: FrameType | None) -> bool:
    if any(base.__name__ == "Bdb" for base in type(getattr(sys.gettrace(), "__self__", 0)).mro()):
        return True
    while frame is not None:
        if frame.f_globals.get("__name__") in (
            "bdb",
            "pdb",
            "cmd",
            "code",
            "IPython.core.debugger",
        ):
            return True
        frame = frame.f_back
    return False


def _line(frame: FrameType | None, sources: Collection[str]) -> tuple[str, int, str] | None:
    innermost = None
    while frame is not None:
        where = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        innermost = innermost or where
        if frame.f_code.co_filename in sources:
            return where
        frame = frame.f_back
    return innermost if not sources else None
